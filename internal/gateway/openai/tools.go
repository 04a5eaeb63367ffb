package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// The tools of a request run at the client. A turn that calls them waits, and the answer contains the calls. The request with their results resumes the
// same turn. The id of each call names the turn, so that any gateway can resume it, even after a restart.

const callPrefix = "call_"

// callID is the id of a tool call that the client gets.
type callID struct {
	turn   agent.TurnID
	after  int64  // index of the event after which the next answer begins
	waitID string // the id under which the turn waits for the result
}

func (id callID) String() string {
	text := string(id.turn) + "\x00" + strconv.FormatInt(id.after, 10) + "\x00" + id.waitID
	return callPrefix + base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCallID parses the id of a call. ok is false if the id is not from this door.
func parseCallID(s string) (id callID, ok bool) {
	encoded, ok := strings.CutPrefix(s, callPrefix)
	if !ok {
		return id, false
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return id, false
	}
	parts := strings.SplitN(string(text), "\x00", 3)
	if len(parts) != 3 || !agent.ValidName(parts[0]) || parts[2] == "" {
		return id, false
	}
	after, err := strconv.ParseInt(parts[1], 10, 64)
	return callID{agent.TurnID(parts[0]), after, parts[2]}, err == nil && after > 0
}

// historyID returns the id that a model gets for a call of the conversation. It is a hash if the id is from this door, because some providers
// refuse ids of that length.
func historyID(id string) string {
	if _, ok := parseCallID(id); !ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return callPrefix + hex.EncodeToString(sum[:12])
}

// toolResult is the client's result of a call.
type toolResult struct{ callID, text string }

// json returns the result as a JSON value: the document if the text is a JSON object or array, else the text.
func (r toolResult) json() json.RawMessage {
	if trimmed := strings.TrimSpace(r.text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed)
		}
	}
	return jsonString(r.text)
}

// resumedTurn is the turn that a request resumes with results of the client's tools.
type resumedTurn struct {
	turn    agent.TurnID
	after   int64
	results map[string]toolResult // by the id under which the turn waits
}

// resumptionOf returns the turn to which the results at the end of a conversation belong, or nil if they do not belong to one turn of this door.
func resumptionOf(results []toolResult) *resumedTurn {
	var out *resumedTurn
	for _, r := range results {
		id, ok := parseCallID(r.callID)
		switch {
		case !ok || (out != nil && (out.turn != id.turn || out.after != id.after)):
			return nil
		case out == nil:
			out = &resumedTurn{turn: id.turn, after: id.after, results: map[string]toolResult{}}
		}
		out.results[id.waitID] = r
	}
	return out
}

// readTools reads the tools that run at the client.
func (q *request) readTools(o object) {
	if len(member[[]json.RawMessage](o, "functions")) > 0 && string(o.members["function_call"]) != `"none"` {
		o.refuse("functions", "are not supported: use tools")
	}
	tools := member[[]json.RawMessage](o, "tools")
	switch choice := string(o.members["tool_choice"]); {
	case len(tools) == 0 || choice == `"none"`:
		return
	case choice != `"auto"` && !o.isAbsent("tool_choice"):
		o.refuse("tool_choice", "want auto or none: an agent decides by itself which tools it calls")
	}
	for i, raw := range tools {
		q.turn.ClientTools = append(q.turn.ClientTools, readTool(o.within(fmt.Sprintf("tools[%d]", i), raw)))
	}
	o.fail(renameField(agent.ValidateClientTools("client_tools", q.turn.ClientTools)))
}

func readTool(o object) (t agent.ClientTool) {
	if kind := member[string](o, "type"); kind != "function" {
		o.refuse("type", "want function, got %.60q", kind)
	}
	function := o.object("function")
	t.Name, t.Description, t.Strict = member[string](function, "name"), member[string](function, "description"), member[bool](function, "strict")
	if function.object("parameters").members != nil {
		t.Parameters = function.members["parameters"]
	}
	return t
}

// resume provides the results in a request to the turn that waits for them, which becomes the completion's turn. It returns false if the turn does
// not exist, is another user's, or does not wait for them. Then the request is a new turn with the whole conversation.
func (c *completion) resume(d *Door, r *http.Request) (bool, error) {
	w := c.q.resumed
	if w == nil {
		return false, nil
	}
	receipt := agent.Receipt{TurnID: w.turn, StreamID: string(w.turn), Joined: true}
	v, err := c.call.SubmittedTurn(r.Context(), receipt)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	case v.Agent != c.q.turn.Agent, v.UserID != c.userID(), v.Output != nil && !d.canJoin(r, c.call, receipt):
		return false, nil
	}
	if err := w.checkComplete(v.Pending); err != nil {
		return false, err
	}
	for _, waitID := range slices.Sorted(maps.Keys(w.results)) {
		result := agent.ProvidedResult{ToolCallID: agent.CallID(waitID), Result: w.results[waitID].json()}
		err := c.call.Provide(r.Context(), w.turn, result)
		switch agent.CodeOf(err) {
		case "":
		case agent.CodeConflict, agent.CodeNotFound:
			return false, nil
		default:
			return false, err
		}
	}
	receipt.SessionID = v.SessionID
	c.receipt, c.after = receipt, w.after
	return true, nil
}

// userID returns the user of the request. A turn is resumed only for the user who began it, because the ids of calls are not secret.
func (c *completion) userID() string {
	if p := c.call.Principal(); !p.Trusted() && p.Subject != "" {
		return p.Subject
	}
	return c.q.turn.Context.UserID
}

// checkComplete returns an error if the request has results for some but not all of the calls that the turn waits for. A turn that waits for none of
// them has got the results before.
func (w *resumedTurn) checkComplete(pending []agent.Approval) error {
	var missing []string
	hasSome := false
	for i := range pending {
		p := &pending[i]
		if p.Kind != agent.WaitClientTool {
			continue
		}
		if _, ok := w.results[p.ApprovalID]; ok {
			hasSome = true
			continue
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", callID{w.turn, w.after, p.ApprovalID}, p.ToolName))
	}
	if hasSome && len(missing) > 0 {
		return agent.Invalid("messages", "have no tool message for %s: send the results of all calls together", strings.Join(missing, ", "))
	}
	return nil
}

// toolCall is a call of a client's tool in an answer.
type toolCall struct {
	Index    *int         `json:"index,omitempty"` // only in a stream
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// waitsForClient reports whether the turn waits for results of the client's tools and for nothing else.
func (s *answerState) waitsForClient() bool {
	return s.isPaused && !slices.ContainsFunc(s.pause.Pending, func(p agent.Approval) bool { return p.Kind != agent.WaitClientTool })
}

// toolCalls returns the calls of the client's tools that the turn waits for.
func (c *completion) toolCalls(s *answerState) []toolCall {
	out := make([]toolCall, len(s.pause.Pending))
	for i := range s.pause.Pending {
		p := &s.pause.Pending[i]
		out[i] = toolCall{
			ID: callID{c.receipt.TurnID, s.lastIndex, p.ApprovalID}.String(), Type: "function",
			Function: functionCall{Name: p.ToolName, Arguments: string(p.Args)},
		}
	}
	return out
}
