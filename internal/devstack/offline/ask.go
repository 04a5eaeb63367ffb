package offline

import (
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Patterns of the requests of ask agents: the prompts of the shipped node, and the passages in them.
var (
	branchPrompt   = regexp.MustCompile(`(?is)\bretrieval\b.*\bcode\b.*\bconversational\b`)
	rewritePrompt  = regexp.MustCompile(`(?is)\b(?:rewrite|reformulate|rephrase)\b.*\bquestion`)
	noPassages     = regexp.MustCompile(`(?m)^Context: nothing was found\.\s*$`)
	passagePattern = regexp.MustCompile(`(?m)^\[(\d+)\] .*\n((?:>.*\n?)+)`) // the number, and lines of text that begin with ">"
	sentenceEnd    = regexp.MustCompile(`[.!?:]\s|\n\s*\n|\n ?#+ .*\n|\n ?[-*|] `)
	codeBlock      = regexp.MustCompile("(?s)```.*?(?:```|$)")
	codeQuestion   = regexp.MustCompile(`(?i)\b(?:code|function|script|snippet|example)\b`)
	smallTalk      = regexp.MustCompile(`(?i)^\W*(?:hello|hi|hey|thanks|thank you|bye|who are you|what can you do)\W*$`)
	wordPattern    = regexp.MustCompile(`[\pL\d_]+`)
)

// answerAskAgent answers the requests of an ask agent: for the branch of a message, for a search query, and for an answer. It returns "" for any other
// request.
func (c *chat) answerAskAgent() string {
	quotes := passagePattern.FindAllStringSubmatch(c.system, -1)
	switch {
	case len(quotes) > 0:
		return quoteBest(quotes, c.message)
	case noPassages.MatchString(c.system):
		return "The documents do not say that.\n"
	case branchPrompt.MatchString(c.system) && smallTalk.MatchString(c.message):
		return "conversational"
	case branchPrompt.MatchString(c.system) && codeQuestion.MatchString(c.message):
		return "code"
	case branchPrompt.MatchString(c.system):
		return "retrieval"
	case rewritePrompt.MatchString(c.system):
		return c.message
	}
	return ""
}

// quoteBest quotes the two sentences that have the most long words of the question, each with the number of its passage.
func quoteBest(quotes [][]string, question string) string {
	const (
		minLetters = 4 // of a word that counts
		minWords   = 5 // of a sentence; headings have fewer
	)
	type sentence struct {
		text  string
		score int
	}
	var found []sentence
	for _, quote := range quotes {
		text := codeBlock.ReplaceAllString(strings.ReplaceAll("\n"+quote[2], "\n>", "\n"), "\n\n")
		for _, s := range sentenceEnd.Split(text, -1) {
			words, score := strings.Fields(s), 0
			for _, word := range wordPattern.FindAllString(strings.ToLower(question), -1) {
				if len(word) >= minLetters && strings.Contains(strings.ToLower(s), word) {
					score++
				}
			}
			if score > 0 && len(words) >= minWords {
				s = clip.Runes(strings.Trim(strings.Join(words, " "), " .#|>*-"), maxText)
				found = append(found, sentence{s + " [" + quote[1] + "].", score})
			}
		}
	}
	if len(found) == 0 {
		return "The passages do not say that.\n"
	}
	slices.SortStableFunc(found, func(a, b sentence) int { return b.score - a.score })
	text := found[0].text
	if len(found) > 1 {
		text += " " + found[1].text
	}
	return text + "\n"
}
