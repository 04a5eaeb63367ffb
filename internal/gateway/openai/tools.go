package openai

import (
	"context"
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

// The tools of a request run at the client. A turn that calls some waits, and the answer has their calls. The request that brings the
// results goes on with the same turn: the id of each call says which one, so that any gateway knows, also after a restart.

const callPrefix = "call_"

// callID is the id of a call as the client knows it: what waits, whose turn, and behind which event the answer goes on.
type callID struct {
	turn  agent.TurnID
	after int64
	wait  string
}

func (id callID) String() string {
	text := string(id.turn) + "\x00" + strconv.FormatInt(id.after, 10) + "\x00" + id.wait
	return callPrefix + base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCallID reads an id; ok is false for one that this door has not made.
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

// historyID is the id of a call of the past as a model gets it: some providers refuse ids as long as those of this door.
func historyID(id string) string {
	if _, ok := parseCallID(id); !ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return callPrefix + hex.EncodeToString(sum[:12])
}

// toolResult is what a client brings for a call.
type toolResult struct{ id, text string }

// json is the result as the model gets it: a document, or a text.
func (r toolResult) json() json.RawMessage {
	if trimmed := strings.TrimSpace(r.text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed)
		}
	}
	return jsonString(r.text)
}

// resumedTurn is the turn that a request goes on with.
type resumedTurn struct {
	turn    agent.TurnID
	after   int64
	results map[string]toolResult // by what waits
}

// resumptionOf returns the turn that the results at the end of a conversation are for, nil when they are not for one turn of this door.
func resumptionOf(results []toolResult) *resumedTurn {
	var out *resumedTurn
	for _, r := range results {
		id, ok := parseCallID(r.id)
		switch {
		case !ok || (out != nil && (out.turn != id.turn || out.after != id.after)):
			return nil
		case out == nil:
			out = &resumedTurn{turn: id.turn, after: id.after, results: map[string]toolResult{}}
		}
		out.results[id.wait] = r
	}
	return out
}

// readTools reads the tools of the client.
func (q *request) readTools(o object) {
	if len(member[[]json.RawMessage](o, "functions")) > 0 && string(o.members["function_call"]) != `"none"` {
		o.refuse("functions", "are not supported: use tools")
	}
	tools := member[[]json.RawMessage](o, "tools")
	switch choice := string(o.members["tool_choice"]); {
	case len(tools) == 0 || choice == `"none"`:
		return
	case choice != `"auto"` && !o.absent("tool_choice"):
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

// resume provides the results that a request brings and makes the completion one of the turn that waited for them. It reports false when
// there is no such turn, or it goes on without them: the request is a new turn then, with the whole conversation.
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
	if err := w.complete(v.Pending); err != nil {
		return false, err
	}
	for _, wait := range w.waits() {
		result := agent.ProvidedResult{ToolCallID: agent.CallID(wait), Result: w.results[wait].json()}
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

// userID is who asks, as a turn of the request says: the ids of calls are no secrets, so a turn goes on for the user alone who began it.
func (c *completion) userID() string {
	if p := c.call.Principal(); !p.Trusted() && p.Subject != "" {
		return p.Subject
	}
	return c.q.turn.Context.UserID
}

// waits are the ids of what waits, in an order that does not change.
func (w *resumedTurn) waits() []string {
	return slices.Sorted(maps.Keys(w.results))
}

// complete refuses results of some of the calls that a turn waits for. A turn that waits for none of them has got them before.
func (w *resumedTurn) complete(pending []agent.Approval) error {
	var missing []string
	some := false
	for i := range pending {
		p := &pending[i]
		if p.Kind != agent.WaitClientTool {
			continue
		}
		if _, given := w.results[p.ApprovalID]; given {
			some = true
			continue
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", callID{w.turn, w.after, p.ApprovalID}, p.ToolName))
	}
	if some && len(missing) > 0 {
		return agent.Invalid("messages", "have no tool message for %s: send the results of all calls together", strings.Join(missing, ", "))
	}
	return nil
}

// toolCall is a call of a client's tool in an answer.
type toolCall struct {
	Index    *int         `json:"index,omitempty"` // in a stream
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// callsClient reports whether the turn waits for results of the client's tools, and for nothing else.
func (r *reading) callsClient() bool {
	return r.paused && !slices.ContainsFunc(r.pause.Pending, func(p agent.Approval) bool { return p.Kind != agent.WaitClientTool })
}

// toolCalls are the calls that the turn waits for.
func (c *completion) toolCalls(r *reading) []toolCall {
	out := make([]toolCall, len(r.pause.Pending))
	for i := range r.pause.Pending {
		p := &r.pause.Pending[i]
		out[i] = toolCall{
			ID: callID{c.receipt.TurnID, r.index, p.ApprovalID}.String(), Type: "function",
			Function: functionCall{Name: p.ToolName, Arguments: string(p.Args)},
		}
	}
	return out
}

// resumeFrom says behind which event the answer of a turn that goes on begins.
func (r *reading) resumeFrom(ctx context.Context, c *completion) (after int64, over bool, err error) {
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil || v.Tail.FirstIndex <= c.after+1 && v.Tail.FirstIndex > 0 {
		return c.after, false, err
	}
	r.text.uncertain, r.thoughts.uncertain = true, true // events have expired: the result has the answer
	r.output = v.Output
	return max(v.Tail.FirstIndex-1, c.after, 0), v.Output != nil, nil
}
