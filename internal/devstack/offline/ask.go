package offline

import (
	"regexp"
	"slices"
	"strings"
)

// task is what a request of an ask agent wants, as its system prompt shows.
type task uint8

const (
	taskNone      task = iota
	taskClassify       // one word: the branch
	taskRewrite        // the question, so that it stands alone
	taskAnswer         // from passages that the prompt quotes
	taskSmallTalk      // what needs no search
)

// The branches of an ask agent.
const (
	branchRetrieval      = "retrieval"
	branchCode           = "code"
	branchConversational = "conversational"
)

// How prompts of ask agents are told from others: see the package comment.
var (
	oneWord    = regexp.MustCompile(`(?i)\bone\s+of\s+(?:these|the\s+following)\s+words\b|\b(?:one|a\s+single|only\s+the)\s+word\b|\bnothing\s+else\b`)
	rewrite    = regexp.MustCompile(`(?i)\b(?:rewrite|reformulate|rephrase)\b`)
	standAlone = regexp.MustCompile(`(?i)\bquestions?\s+for\s+a\s+search\b|\bwithout\s+the\s+conversation\b|\bstand(?:s|ing)?[\s-]?alone\b`)
	noSearch   = regexp.MustCompile(`(?i)\bneeds\s+no\s+search\b|\bthere\s+are\s+no\s+passages\b`)
	nothing    = regexp.MustCompile(`(?m)^Context: nothing was found\.\s*$`)
)

// taskOf reads the system prompt.
func taskOf(system string) task {
	switch {
	case oneWord.MatchString(system) && namesBranches(system):
		return taskClassify
	case rewrite.MatchString(system) && standAlone.MatchString(system):
		return taskRewrite
	case nothing.MatchString(system) || numberedHead.MatchString(system):
		return taskAnswer
	case noSearch.MatchString(system):
		return taskSmallTalk
	default:
		return taskNone
	}
}

func namesBranches(system string) bool {
	words := splitWords(system)
	return slices.Contains(words, branchRetrieval) && slices.Contains(words, branchCode) && slices.Contains(words, branchConversational)
}

// systemText joins what the request says above the conversation.
func systemText(messages []message) string {
	var parts []string
	for i := range messages {
		if m := &messages[i]; m.Role == "system" || m.Role == "developer" {
			parts = append(parts, m.text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// userTexts are the user's messages, the last one first, each as much as is parsed.
func userTexts(messages []message) []string {
	var out []string
	for _, m := range slices.Backward(messages) {
		if m.Role == "user" {
			out = append(out, strings.TrimSpace(clipBytes(m.text, maxPrompt)))
		}
	}
	return out
}

func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// classify sorts the last message; one that follows up goes where the one before it went.
func classify(asked []string) string {
	const back = 3 // messages that are looked at
	for i, text := range asked[:min(len(asked), back)] {
		words := splitWords(text)
		switch {
		case smallTalk(text) != "":
			if i == 0 {
				return branchConversational
			}
		case slices.ContainsFunc(words, codeWord) || strings.Contains(text, "```"):
			return branchCode
		case !followsUp(words):
			return branchRetrieval
		}
	}
	return branchRetrieval
}

// followsUp reports whether a message can hardly be understood without the one before it.
func followsUp(words []string) bool {
	const short = 5 // words
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "and", "but", "or", "also", "why":
		return len(words) <= 2*short
	case "what", "how":
		if len(words) > 1 && words[1] == "about" {
			return len(words) <= 2*short
		}
	}
	return len(words) <= short && (slices.ContainsFunc(words, pronoun) || len(terms(strings.Join(words, " "))) == 0)
}

var (
	greeting  = regexp.MustCompile(`(?i)^(?:(?:hi|hello|hey|thanks|thank you|good (?:morning|afternoon|evening))(?: there| very much)?[\s,.!]+)+`)
	connector = regexp.MustCompile(`(?i)^(?:(?:and|but|or|also|then|so|what about|how about)\b[\s,]*)+`)
)

// standalone is the last question so that it can be searched for: one that follows up gets the telling words of the one before it.
func standalone(asked []string) string {
	const (
		back    = 3
		carried = 8 // words
	)
	if len(asked) == 0 {
		return ""
	}
	last := asked[0]
	if rest := greeting.ReplaceAllString(last, ""); strings.TrimSpace(rest) != "" {
		last = rest
	}
	if !followsUp(splitWords(last)) {
		return last
	}
	seen := terms(last)
	var nouns []string
	for _, text := range asked[1:min(len(asked), back+1)] {
		if smallTalk(text) != "" {
			continue
		}
		var of []string
		for w := range strings.FieldsSeq(text) {
			w = strings.Trim(w, `.,;:!?()"'“”`)
			for _, t := range terms(w) {
				if !slices.Contains(seen, t) && len(of)+len(nouns) < carried {
					seen = append(seen, t)
					of = append(of, w)
					break
				}
			}
		}
		nouns = append(of, nouns...)
		if !followsUp(splitWords(text)) {
			break
		}
	}
	if len(nouns) == 0 {
		return last
	}
	return strings.TrimSpace(strings.Join(nouns, " ") + " " + connector.ReplaceAllString(last, ""))
}

// The kinds of small talk.
const (
	courtesyHello  = "hello"
	courtesyThanks = "thanks"
	courtesyBye    = "bye"
	courtesyOK     = "ok"
	courtesyAbout  = "about" // a question about the assistant
	courtesyAlong  = "along" // a word that says nothing alone
)

var aboutMe = regexp.MustCompile(`(?i)^\W*(?:(?:so|and|ok|hi|hello|hey)\W+)*` +
	`(?:(?:who|what) are you|what can you do(?: for me)?|how are you(?: doing)?(?: today)?)\W*$|\byour name\b|\btell me a joke\b|^\W*help\W*$`)

// smallTalk says what kind of small talk a message is, empty when it is none.
func smallTalk(text string) string {
	const most = 12 // words
	if aboutMe.MatchString(text) {
		return courtesyAbout
	}
	words := splitWords(text)
	if len(words) > most {
		return ""
	}
	kind := ""
	for _, w := range words {
		switch c := courtesy(w); {
		case c == "":
			return ""
		case c == courtesyAlong:
		case kind == "" || kind == courtesyOK: // "great, thanks" thanks
			kind = c
		}
	}
	return kind
}

// friendly answers what needs no search.
func friendly(text string) string {
	const offer = "Ask me something that the documents may answer, and I look it up and name the sources."
	switch smallTalk(text) {
	case courtesyHello:
		return "Hello! " + offer + "\n"
	case courtesyThanks:
		return "You are welcome! " + offer + "\n"
	case courtesyBye:
		return "Goodbye, and come back any time!\n"
	case courtesyOK:
		return "Good! " + offer + "\n"
	default:
		return "I am Turnstone's offline model. I look answers up in the documents that I was given, with the sources, and quote the code in them. " + offer + "\n"
	}
}
