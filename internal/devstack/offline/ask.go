package offline

import (
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// The patterns that identify requests of ask agents: the prompts of the shipped node, and the passages that the runtime quotes.
var (
	namesBranches = regexp.MustCompile(`(?is)\bretrieval\b.*\bcode\b.*\bconversational\b`)
	rewrites      = regexp.MustCompile(`(?is)\b(?:rewrite|reformulate|rephrase)\b.*\bquestion`)
	noPassages    = regexp.MustCompile(`(?m)^Context: nothing was found\.\s*$`)
	passages      = regexp.MustCompile(`(?m)^\[(\d+)\] .*\n((?:>.*\n?)+)`) // number, and text in lines behind ">"
	sentenceEnd   = regexp.MustCompile(`[.!?:]\s|\n\s*\n|\n ?#+ .*\n|\n ?[-*|] `)
	codeBlock     = regexp.MustCompile("(?s)```.*?(?:```|$)")
	wantsCode     = regexp.MustCompile(`(?i)\b(?:code|function|script|snippet|example)\b`)
	smallTalk     = regexp.MustCompile(`(?i)^\W*(?:hello|hi|hey|thanks|thank you|bye|who are you|what can you do)\W*$`)
	anyWord       = regexp.MustCompile(`[\pL\d_]+`)
)

// answerAsk answers the requests of an ask agent: the branch of a message, the search query, and the answer. It returns "" for all other requests.
func (c *chat) answerAsk() string {
	quotes := passages.FindAllStringSubmatch(c.system, -1)
	switch {
	case len(quotes) > 0:
		return quoteBest(quotes, c.message)
	case noPassages.MatchString(c.system):
		return "The documents do not say that.\n"
	case namesBranches.MatchString(c.system) && smallTalk.MatchString(c.message):
		return "conversational"
	case namesBranches.MatchString(c.system) && wantsCode.MatchString(c.message):
		return "code"
	case namesBranches.MatchString(c.system):
		return "retrieval"
	case rewrites.MatchString(c.system):
		return c.message
	}
	return ""
}

// quoteBest quotes the two sentences that share most long words with the question, each with the number of its passage.
func quoteBest(quotes [][]string, question string) string {
	const long, short = 4, 5 // letters of a word that counts, words of a heading
	type sentence struct {
		text  string
		score int
	}
	var found []sentence
	for _, quote := range quotes {
		text := codeBlock.ReplaceAllString(strings.ReplaceAll("\n"+quote[2], "\n>", "\n"), "\n\n")
		for _, s := range sentenceEnd.Split(text, -1) {
			words, score := strings.Fields(s), 0
			for _, word := range anyWord.FindAllString(strings.ToLower(question), -1) {
				if len(word) >= long && strings.Contains(strings.ToLower(s), word) {
					score++
				}
			}
			if score > 0 && len(words) >= short {
				s = clip.Runes(strings.Trim(strings.Join(words, " "), " .#|>*-"), shownText)
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
