package offline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const slowToken = 50 * time.Millisecond

var (
	sayWords    = regexp.MustCompile(`(?i)^\s*say (\d{1,5}) words?( slowly)?`)
	jsonObject  = regexp.MustCompile(`(?s)\{.*\}`)
	sessionLine = regexp.MustCompile(`(?im)^\s*session(?:[ _]id)?:\s*(\S{1,128})\s*$`)
	storedRef   = regexp.MustCompile(`(?:cas|artifact)://[\w:.-]*\w`)
)

// reply is one answer of the model: text, or tool calls.
type reply struct {
	text   string
	calls  []toolCall
	pace   time.Duration // for each token; 0: the configured one
	finish string        // stop, tool_calls or length
}

// chat has the parts of a request that the model uses.
type chat struct {
	*request

	system  string   // the system prompts
	session string   // the session's id from a system prompt
	lastRef string   // of the newest rows of the session; "" without any
	message string   // the last message of the user
	results []string // of the tools in the last step
}

func newChat(req *request) *chat {
	c := &chat{request: req, session: "offline"}
	for i := range req.Messages {
		m := &req.Messages[i]
		if m.Role != "tool" {
			c.results = nil
		}
		switch m.Role {
		case "system", "developer":
			c.system += m.text + "\n\n"
		case "user":
			c.message = m.text
		case "tool":
			c.results = append(c.results, m.text)
		}
		if found := storedRef.FindString(m.context); found != "" {
			c.lastRef = found
		}
	}
	if found := sessionLine.FindStringSubmatch(c.system); found != nil {
		c.session = found[1]
	}
	return c
}

// respond returns the model's answer, which depends only on the request and the configuration.
func (m *Model) respond(req *request) reply {
	r := m.answer(newChat(req))
	if schema, tool := req.wantedDocument(); len(r.calls) == 0 && schema != nil {
		r.text = string(document(schema, r.text))
		if tool != "" {
			r = reply{calls: []toolCall{req.toolCall(tool, r.text, 0)}}
		}
	}
	words, limit := piece.FindAllString(r.text, -1), max(req.MaxCompletionTokens, req.MaxTokens)
	switch {
	case len(r.calls) > 0:
		r.finish = "tool_calls"
	case limit > 0 && len(words) > limit:
		r.text, r.finish = strings.Join(words[:limit], ""), "length"
	default:
		r.finish = "stop"
	}
	return r
}

// answer returns the text or the calls, before they get the requested form.
func (m *Model) answer(c *chat) reply {
	if len(c.results) > 0 {
		return reply{text: m.showResults(c)}
	}
	if r, ok := c.callNamedTool(); ok {
		return r
	}
	if text := c.answerAsk(); text != "" {
		return reply{text: text}
	}
	if found := sayWords.FindStringSubmatch(c.message); found != nil {
		return numberedWords(found)
	}
	for _, p := range m.prompts {
		if found := p.pattern.FindStringSubmatch(c.message); found != nil {
			if p.tool == "" {
				return reply{text: p.template}
			}
			return c.call(p.tool, m.fill(p.template, found))
		}
	}
	if r, ok := m.pipeline(c); ok {
		return r
	}
	return reply{text: "I am Turnstone's scripted offline model: I know the prompts of the documentation, such as \"fetch flights from NYC to LAX, " +
		"sort by price, show top 3\", and call a tool that you name. You said: " + strconv.Quote(clip.Runes(strings.TrimSpace(c.message), shownText)) +
		"\n\nFor real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, or llm in turnstone.yaml (docs/reference/configuration.md).\n"}
}

// numberedWords returns as many words as the message asks for.
func numberedWords(found []string) reply {
	n, _ := strconv.Atoi(found[1]) // five digits at most
	words := make([]string, n)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i+1)
	}
	r := reply{text: strings.Join(words, " ")}
	if found[2] != "" {
		r.pace = slowToken
	}
	return r
}

// callNamedTool calls the tool that the message names, with the JSON object in the message, else with what the tool requires.
func (c *chat) callNamedTool() (reply, bool) {
	words := anyWord.FindAllString(c.message, -1)
	for i := range c.Tools {
		f := &c.Tools[i].Function
		if !slices.Contains(words, f.Name) || !c.offers(f.Name) {
			continue
		}
		args := jsonObject.FindString(c.message)
		if !json.Valid([]byte(args)) {
			args = string(document(f.Parameters, c.message))
		}
		return c.call(f.Name, args), true
	}
	return reply{}, false
}

// call returns a reply that calls a tool, or tells why it cannot.
func (c *chat) call(tool, args string) reply {
	if !c.offers(tool) {
		return reply{text: "That needs the tool " + tool + ", which this agent does not have.\n"}
	}
	return reply{calls: []toolCall{c.toolCall(tool, args, 0)}}
}

// toolCall returns a call. Its id depends on the conversation and the position.
func (r *request) toolCall(tool, args string, position int) toolCall {
	return toolCall{ID: "call_" + r.hash(position), Type: "function", Function: function{Name: tool, Arguments: args}}
}

func (r *request) hash(position int) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(r.Messages) // a hash takes everything
	h.Write([]byte(strconv.Itoa(position)))
	return hex.EncodeToString(h.Sum(nil))[:24]
}
