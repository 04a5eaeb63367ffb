package offline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// notSaid is the answer that is in no passage.
const notSaid = "The documents do not say that.\n"

// maxQuoted is how many sentences an answer quotes.
const maxQuoted = 3

// fromPassages answers a question with the sentences that share most words with it, each with the number of its passage, and for a
// question about code with the block of code that does.
func fromPassages(found []passage, question string) string {
	var sentences []sentence
	var blocks []block
	for i := range found {
		s, b := found[i].read()
		sentences, blocks = append(sentences, s...), append(blocks, b...)
	}
	words := splitWords(question)
	asked := terms(strings.Join(slices.DeleteFunc(slices.Clone(words), codeWord), " "))
	var code *block
	if slices.ContainsFunc(words, codeWord) {
		code = bestBlock(blocks, asked)
	}
	quoted := choose(sentences[:min(len(sentences), maxSentences)], asked)
	if code == nil && len(quoted) == 0 {
		return notSaid
	}
	var b strings.Builder
	if code != nil {
		fmt.Fprintf(&b, "%s\nThis is from the documents [%d].", code.text, code.number)
	}
	for i, s := range quoted {
		if i > 0 || code != nil {
			b.WriteByte(' ')
		}
		b.WriteString(s.cited())
	}
	b.WriteByte('\n')
	return b.String()
}

// cited is the sentence with its marker before the final mark.
func (s *sentence) cited() string {
	text := strings.TrimRight(s.text, ".!?:; ")
	end := strings.TrimSpace(s.text[len(text):])
	if strings.Trim(end, "!?") != "" || end == "" {
		end = "."
	}
	return fmt.Sprintf("%s [%d]%s", text, s.number, end)
}

// scored is a sentence and what it has of a question.
type scored struct {
	sentence

	score float64
	has   []string // terms, also of what stands above it
}

// choose picks up to three sentences, the best first: those about as good as it, and those that say something of what is still open. Of a
// question of three terms and more two must be found. A question without terms is about whatever was found first.
func choose(all []sentence, asked []string) []sentence {
	if len(asked) == 0 {
		return all[:min(len(all), 1)]
	}
	ranked := rank(all, asked)
	if len(ranked) == 0 {
		return nil
	}
	const near, far = 0.6, 0.3 // of the best score
	var out []sentence
	var covered []string
	for _, s := range ranked {
		fresh := slices.ContainsFunc(s.has, func(t string) bool { return !slices.Contains(covered, t) })
		same := slices.ContainsFunc(out, func(o sentence) bool { return o.text == s.text })
		if len(out) == maxQuoted || same || s.score < far*ranked[0].score || s.score < near*ranked[0].score && !fresh {
			continue
		}
		out = append(out, s.sentence)
		for _, t := range s.has {
			if !slices.Contains(covered, t) {
				covered = append(covered, t)
			}
		}
	}
	if len(asked) > 2 && len(covered) < 2 {
		return nil
	}
	return out
}

// rank scores the sentences that have a term of the question; rare terms count more, and those of the headings above it half.
func rank(all []sentence, asked []string) []scored {
	own := make([][]string, len(all))
	frequency := map[string]int{}
	for i := range all {
		own[i] = shared(asked, all[i].text)
		for _, t := range own[i] {
			frequency[t]++
		}
	}
	var out []scored
	for i := range all {
		s := scored{sentence: all[i], has: own[i]}
		for _, t := range own[i] {
			s.score += weigh(len(all), frequency[t])
		}
		for _, t := range shared(asked, all[i].above) {
			if !slices.Contains(own[i], t) {
				s.has = append(s.has, t)
				s.score += weigh(len(all), frequency[t]) / 2
			}
		}
		if s.score > 0 {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	return out
}

func weigh(all, having int) float64 { return math.Log(1 + float64(all+1)/float64(having+1)) }

// shared are the asked terms that a text has.
func shared(asked []string, text string) []string {
	of := terms(text)
	var out []string
	for _, t := range asked {
		if slices.Contains(of, t) {
			out = append(out, t)
		}
	}
	return out
}

// bestBlock is the code that has most of the question's terms, the first of them; nil when none has any, unless nothing is asked for.
func bestBlock(blocks []block, asked []string) *block {
	var best *block
	most := 0
	for i := range blocks {
		n := len(shared(asked, blocks[i].above+" "+blocks[i].text))
		if n > most || best == nil && len(asked) == 0 {
			best, most = &blocks[i], n
		}
	}
	return best
}
