// Package pii is the middleware "pii": it finds e-mail addresses, card numbers, IP and MAC addresses, URLs and what an expression
// describes, and redacts, masks, hashes or blocks them, under the names and options of LangChain v1's PIIMiddleware.
//
// One [Rule] finds one type. [Rule.Apply] is for whole texts, [Stream] for text that is being written; both give the same answer.
// Nothing of a value gets into an error or a log.
package pii

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Middleware applies one rule to what an agent is told and says.
type Middleware struct {
	agent.Pass

	rule   *Rule
	older  *Rule // for what was said before the newest messages: under block it is redacted, for the turn cannot take it back
	input  bool
	output bool
	tools  bool
}

// options are LangChain v1's of the same names. Its stream_lookback counts characters for every type; here it is in bytes, and of use
// for a detector without a longest match alone.
type options struct {
	PIIType            string `json:"pii_type"`
	Strategy           string `json:"strategy"` // default redact
	Detector           string `json:"detector"` // RE2
	ApplyToInput       bool   `json:"apply_to_input"`
	ApplyToOutput      bool   `json:"apply_to_output"`
	ApplyToToolResults bool   `json:"apply_to_tool_results"`
	StreamLookback     int    `json:"stream_lookback"`
}

// New makes the middleware from the options of a plan; it is a [*Middleware]. Errors are [agent.CodeInvalid] with the field.
func New(raw json.RawMessage) (agent.Middleware, error) {
	o := options{ApplyToInput: true}
	if len(raw) > 0 {
		if err := strictjson.Decode(raw, &o); err != nil {
			return nil, err
		}
	}
	rule, err := NewRule(RuleConfig{Type: o.PIIType, Strategy: o.Strategy, Detector: o.Detector, Lookback: o.StreamLookback})
	if err != nil {
		return nil, err
	}
	m := &Middleware{rule: rule, older: rule, input: o.ApplyToInput, output: o.ApplyToOutput, tools: o.ApplyToToolResults}
	if rule.strategy == StrategyBlock {
		m.older = rule.redacting()
	}
	return m, nil
}

// Reads reports whether it changes what the model is told.
func (m *Middleware) Reads() bool { return m.input || m.tools }

// BeforeModel applies the rule to the user messages of a request and, where asked for, to its tool results. LangChain looks at the
// newest alone, because it keeps what it changed; here the store has what the user wrote, so older messages are looked at each time.
func (m *Middleware) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	out := slices.Clone(req.Messages)
	newest := newestOf(out)
	for i := range out {
		role := out[i].Role
		if (role != agent.RoleUser || !m.input) && (role != agent.RoleTool || !m.tools) {
			continue
		}
		e := editor{rule: m.older}
		if i >= newest[role] {
			e.rule = m.rule
		}
		out[i].Blocks = e.blocks(out[i].Blocks)
		if e.err != nil {
			return agent.JumpNone, wrap("check the "+string(role)+" message", e.err)
		}
	}
	req.Messages = out
	return agent.JumpNone, nil
}

// newestOf says from which index on messages are new: the user's last ones in a row, the tool results after the model's last reply.
func newestOf(messages []agent.Message) map[agent.Role]int {
	user := len(messages)
	for user > 0 && messages[user-1].Role != agent.RoleUser {
		user--
	}
	for user > 0 && messages[user-1].Role == agent.RoleUser {
		user--
	}
	tool := len(messages)
	for tool > 0 && messages[tool-1].Role != agent.RoleAssistant {
		tool--
	}
	return map[agent.Role]int{agent.RoleUser: user, agent.RoleTool: tool}
}

// WrapTool applies the rule to what a tool says: result, failure, error and progress. Under block the result is an error, and
// progress with a value in it is not reported.
func (m *Middleware) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	if !m.tools {
		return next
	}
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		if report := inv.Progress; report != nil {
			inv.Progress = func(message string) {
				if out, _, err := m.rule.Apply(message); err == nil {
					report(out)
				}
			}
		}
		inv.Redact = m.redact(inv.Redact)
		result, err := next(ctx, inv, call)
		if err != nil {
			return agent.ToolResult{}, m.cleanError(err)
		}
		e := editor{rule: m.rule}
		result.Output, result.Data, result.Preview = e.json(result.Output), e.json(result.Data), e.json(result.Preview)
		result.Failure = e.failure(result.Failure)
		if e.err != nil {
			return agent.ToolResult{}, wrap("check the result of "+call.Name, e.err)
		}
		return result, nil
	}
}

// redact is what the tool does to rows that it stores by itself: this rule, then those of the middleware around it.
func (m *Middleware) redact(outer func(json.RawMessage) (json.RawMessage, error)) func(json.RawMessage) (json.RawMessage, error) {
	return func(raw json.RawMessage) (json.RawMessage, error) {
		e := editor{rule: m.rule}
		if raw = e.json(raw); e.err != nil {
			return nil, wrap("check what is stored", e.err)
		}
		if outer != nil {
			return outer(raw)
		}
		return raw, nil
	}
}

// failure applies the rule to what a failure says.
func (e *editor) failure(f *agent.Failure) *agent.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Message = e.text(f.Message)
	out.Faults = slices.Clone(f.Faults)
	for i := range out.Faults {
		out.Faults[i].Message = e.text(out.Faults[i].Message)
	}
	return &out
}

// cleanError is err when it says nothing that the rule finds; else its code and what is left of it. It is redacted under block: an
// error is no result to refuse.
func (m *Middleware) cleanError(err error) error {
	text, found, _ := m.older.Apply(err.Error())
	if found == 0 {
		return err
	}
	clean := &agent.Error{Code: agent.CodeOf(err), Err: errors.New(text)}
	if e, ok := errors.AsType[*agent.Error](err); ok {
		clean.RetryAfter = e.RetryAfter
	}
	return clean
}

// wrap says what was being done. [editor] has no other errors than [agent.CodeDenied] ones and errNotJSON.
func wrap(op string, err error) error {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return &agent.Error{Code: e.Code, Op: op, Err: e.Err}
	}
	return &agent.Error{Code: agent.CodeInternal, Op: op, Err: err}
}
