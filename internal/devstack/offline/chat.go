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

// reply is an answer of the model: text or tool calls.
type reply struct {
	text   string
	calls  []toolCall
	pace   time.Duration // delay of each token; 0: Config.TokenDelay
	finish string        // stop, tool_calls or length
}

// chat has the parts of a request from which the model makes its answer.
type chat struct {
	*request

	system  string   // the system prompts
	session string   // session id in a system prompt
	lastRef string   // reference of the newest rows in the session, if any
	message string   // the user's last message
	results []string // results of the tools in the last step
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
		if match := storedRef.FindString(m.context); match != "" {
			c.lastRef = match
		}
	}
	if match := sessionLine.FindStringSubmatch(c.system); match != nil {
		c.session = match[1]
	}
	return c
}

// respond returns the model's answer. The same request always has the same answer.
func (m *model) respond(req *request) reply {
	r := m.answer(newChat(req))
	if schema, tool := req.outputSchema(); len(r.calls) == 0 && schema != nil {
		r.text = string(document(schema, r.text))
		if tool != "" {
			r = reply{calls: []toolCall{req.toolCall(tool, r.text, 0)}}
		}
	}
	words, limit := textToken.FindAllString(r.text, -1), max(req.MaxCompletionTokens, req.MaxTokens)
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

// answer returns the text or the calls. It ignores the output schema and the token limit.
func (m *model) answer(c *chat) reply {
	if len(c.results) > 0 {
		return reply{text: m.showResults(c)}
	}
	if r, ok := c.callNamedTool(); ok {
		return r
	}
	if text := c.answerAskAgent(); text != "" {
		return reply{text: text}
	}
	if match := sayWords.FindStringSubmatch(c.message); match != nil {
		return numberedWords(match)
	}
	for _, p := range m.prompts {
		if match := p.pattern.FindStringSubmatch(c.message); match != nil {
			if p.tool == "" {
				return reply{text: p.template}
			}
			return c.call(p.tool, m.fill(p.template, match))
		}
	}
	if r, ok := m.pipeline(c); ok {
		return r
	}
	return reply{text: "I am Turnstone's scripted offline model: I know the prompts of the documentation, such as \"fetch flights from NYC to LAX, " +
		"sort by price, show top 3\", and call a tool that you name. You said: " + strconv.Quote(clip.Runes(strings.TrimSpace(c.message), maxText)) +
		"\n\nFor real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, or llm in turnstone.yaml (docs/reference/configuration.md).\n"}
}

// numberedWords answers a message that matches sayWords.
func numberedWords(match []string) reply {
	n, _ := strconv.Atoi(match[1]) // up to five digits
	words := make([]string, n)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i+1)
	}
	r := reply{text: strings.Join(words, " ")}
	if match[2] != "" {
		r.pace = slowToken
	}
	return r
}

// callNamedTool calls the tool that the message names. The arguments are the JSON object in the message, or else a small document of the tool's schema.
func (c *chat) callNamedTool() (reply, bool) {
	words := wordPattern.FindAllString(c.message, -1)
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

// call returns a reply that calls a tool, or a text if the request does not offer the tool.
func (c *chat) call(tool, args string) reply {
	if !c.offers(tool) {
		return reply{text: "That needs the tool " + tool + ", which this agent does not have.\n"}
	}
	return reply{calls: []toolCall{c.toolCall(tool, args, 0)}}
}

// toolCall returns a call. Its id is a hash of the conversation and the position.
func (r *request) toolCall(tool, args string, position int) toolCall {
	return toolCall{ID: "call_" + r.hash(position), Type: "function", Function: function{Name: tool, Arguments: args}}
}

func (r *request) hash(position int) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(r.Messages) // writing to a hash never fails
	h.Write([]byte(strconv.Itoa(position)))
	return hex.EncodeToString(h.Sum(nil))[:24]
}
