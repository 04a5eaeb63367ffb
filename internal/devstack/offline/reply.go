package offline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

const slowToken = 50 * time.Millisecond

// reply is what the model says: text, or tool calls.
type reply struct {
	text   string
	calls  []toolCall
	pace   time.Duration // for each token; 0: the configured one
	finish string        // stop, tool_calls or length
	aside  bool          // the text is about the model, not about what was asked
}

// respond is the model. It depends on nothing but the request and the configuration.
func (m *Model) respond(req *request) (reply, *apiError) {
	r, prepares := prepare(req)
	if !prepares {
		r = m.think(req)
		if refused := r.structure(req); refused != nil {
			return reply{}, refused
		}
	}
	r.finish = "stop"
	if len(r.calls) > 0 {
		r.finish = "tool_calls"
		return r, nil
	}
	if pieces := pieces(r.text); req.maxTokens() > 0 && len(pieces) > req.maxTokens() {
		r.text, r.finish = strings.Join(pieces[:req.maxTokens()], ""), "length"
	}
	return r, nil
}

// prepare answers the requests by which an ask agent prepares a turn.
func prepare(req *request) (reply, bool) {
	switch taskOf(systemText(req.Messages)) {
	case taskClassify:
		return reply{text: classify(userTexts(req.Messages))}, true
	case taskRewrite:
		return reply{text: standalone(userTexts(req.Messages))}, true
	default:
		return reply{}, false
	}
}

func (m *Model) think(req *request) reply {
	last := lastUser(req.Messages)
	if last < 0 {
		return reply{text: introduction(m.cfg.FlightsURL != ""), aside: true}
	}
	prompt := req.Messages[last].text
	mem := recall(req.Messages)
	in := parseIntent(prompt, mem.known()...)
	if end := req.Messages[len(req.Messages)-1]; end.Role == "tool" {
		return m.goOn(req, &in, mem)
	}
	if call, ok := errand(req, prompt); ok {
		return reply{calls: []toolCall{call}}
	}
	if in.say > 0 {
		r := reply{text: numbered(in.say)}
		if in.slowly {
			r.pace = slowToken
		}
		return r
	}
	if !in.from.fetches() || !req.offers(toolName) {
		if text, ok := askAnswer(req.Messages); ok {
			return reply{text: text}
		}
	}
	if lasts(clipBytes(prompt, maxPrompt)) {
		return change(req, prompt, mem)
	}
	if !in.understood() {
		return reply{text: introduction(m.cfg.FlightsURL != ""), aside: true}
	}
	args, _, because := plan(&in, mem, m.cfg.FlightsURL, nil)
	switch {
	case because != "":
		return reply{text: string(because), aside: true}
	case !req.offers(toolName):
		return reply{text: "I understood the request, but it needs the tool " + toolName + ", which I was not offered.\n", aside: true}
	}
	n := 1
	if in.twice && req.parallel() {
		n = 2
	}
	return calling(req, toolName, args, n)
}

// calling is a reply with n equal calls of a tool.
func calling(req *request, name string, args json.RawMessage, n int) reply {
	var r reply
	for i := range n {
		r.calls = append(r.calls, toolCall{ID: callID(req, i), Type: "function", Function: function{Name: name, Arguments: string(args)}})
	}
	return r
}

// change changes the workflow, or says why not.
func change(req *request, prompt string, mem *memory) reply {
	if offered := req.offers(patchTool); offered {
		if args, ok := patch(clipBytes(prompt, maxPrompt), mem); ok {
			return calling(req, patchTool, args, 1)
		}
		return reply{text: noPatch(true), aside: true}
	}
	return reply{text: noPatch(false), aside: true}
}

// askAnswer answers a question from the passages of the prompt, or small talk; ok is false for requests of other agents.
func askAnswer(messages []message) (text string, ok bool) {
	system, asked := systemText(messages), userTexts(messages)
	switch taskOf(system) {
	case taskAnswer:
		return fromPassages(readPassages(system), standalone(asked)), true
	case taskSmallTalk:
		return friendly(asked[0]), true
	default:
		return "", false
	}
}

// trailingResults are the tool messages that end the conversation.
func trailingResults(messages []message) []string {
	i := len(messages)
	for i > 0 && messages[i-1].Role == "tool" {
		i--
	}
	var out []string
	for _, m := range messages[i:] {
		out = append(out, m.text)
	}
	return out
}

// callID is the same for the same conversation and position, and differs in all others.
func callID(req *request, position int) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(req.Messages) // a hash takes everything
	h.Write([]byte(strconv.Itoa(position)))
	return "call_" + hex.EncodeToString(h.Sum(nil))[:24]
}

// pieces splits text into tokens: a word and the space after it.
func pieces(s string) []string {
	var out []string
	for s != "" {
		i := strings.IndexAny(s, " \n")
		if i < 0 {
			return append(out, s)
		}
		for i < len(s) && (s[i] == ' ' || s[i] == '\n') {
			i++
		}
		out = append(out, s[:i])
		s = s[i:]
	}
	return out
}

// fragmentRunes is how much of a call's arguments one chunk carries.
const fragmentRunes = 12

// fragments splits arguments, never within a character.
func fragments(s string) []string {
	var out []string
	runes := []rune(s)
	for len(runes) > 0 {
		n := min(fragmentRunes, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// tokens counts what a reply cost.
func (r *reply) tokens() int {
	n := len(pieces(r.text))
	for _, c := range r.calls {
		n += len(fragments(c.Function.Arguments)) + 1
	}
	return n
}
