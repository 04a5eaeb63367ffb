// Package pii is the middleware "pii": it finds e-mail addresses, card numbers, IP and MAC addresses, URLs and matches of an expression, and
// redacts, masks, hashes or blocks them, under the names and options of LangChain v1's PIIMiddleware.
//
// One [Rule] finds one type. [Rule.Apply] is for whole texts, [Stream] for text that is being written; both give the same answer.
// No error and no log entry contains a part of a value.
package pii

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Middleware applies one rule to the input and output of an agent.
type Middleware struct {
	agent.Pass

	rule   *Rule
	older  *Rule // for older messages: under block they are redacted, because the turn cannot take them back
	input  bool
	output bool
	tools  bool
}

// options are LangChain v1's of the same names. Here stream_lookback is in bytes, and only for a detector without a longest match.
type options struct {
	PIIType            string `json:"pii_type"`
	Strategy           string `json:"strategy"` // default redact
	Detector           string `json:"detector"` // RE2
	ApplyToInput       bool   `json:"apply_to_input"`
	ApplyToOutput      bool   `json:"apply_to_output"`
	ApplyToToolResults bool   `json:"apply_to_tool_results"`
	StreamLookback     int    `json:"stream_lookback"`
}

// New returns a [*Middleware] with the options of a plan. Errors are [agent.CodeInvalid] with the field.
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
		m.older = rule.withRedactStrategy()
	}
	return m, nil
}

// Reads reports whether the middleware changes what the model is told.
func (m *Middleware) Reads() bool { return m.input || m.tools }

// BeforeModel applies the rule to the user messages of a request and, if configured, to its tool results. LangChain checks only the newest,
// because it stores what it changed; our store has the original text, so all messages are checked each time.
func (m *Middleware) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	out := slices.Clone(req.Messages)
	newest := newestIndexes(out)
	for i := range out {
		role := out[i].Role
		if (role != agent.RoleUser || !m.input) && (role != agent.RoleTool || !m.tools) {
			continue
		}
		e := editor{rule: m.older}
		if i >= newest[role] {
			e.rule = m.rule
		}
		out[i].Blocks = e.editBlocks(out[i].Blocks)
		if e.err != nil {
			return agent.JumpNone, withOp("check the "+string(role)+" message", e.err)
		}
	}
	req.Messages = out
	return agent.JumpNone, nil
}

// newestIndexes returns by role where new messages begin: the user's last ones in a row, the tool results after the model's last reply.
func newestIndexes(messages []agent.Message) map[agent.Role]int {
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

// WrapTool applies the rule to the result, failure, error and progress of a tool. Under block the result is an error, and progress with a
// value in it is not reported.
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
		inv.Redact = m.redactRows(inv.Redact)
		result, err := next(ctx, inv, call)
		if err != nil {
			return agent.ToolResult{}, m.redactError(err)
		}
		e := editor{rule: m.rule}
		result.Output, result.Data, result.Preview = e.editJSON(result.Output), e.editJSON(result.Data), e.editJSON(result.Preview)
		result.Failure = e.editFailure(result.Failure)
		if e.err != nil {
			return agent.ToolResult{}, withOp("check the result of "+call.Name, e.err)
		}
		return result, nil
	}
}

// redactRows returns the redaction of rows that a tool stores by itself: this rule, then those of the outer middleware.
func (m *Middleware) redactRows(outer func(json.RawMessage) (json.RawMessage, error)) func(json.RawMessage) (json.RawMessage, error) {
	return func(raw json.RawMessage) (json.RawMessage, error) {
		e := editor{rule: m.rule}
		if raw = e.editJSON(raw); e.err != nil {
			return nil, withOp("check what is stored", e.err)
		}
		if outer != nil {
			return outer(raw)
		}
		return raw, nil
	}
}

// editFailure applies the rule to the messages of a failure.
func (e *editor) editFailure(f *agent.Failure) *agent.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Message = e.editText(f.Message)
	out.Faults = slices.Clone(f.Faults)
	for i := range out.Faults {
		out.Faults[i].Message = e.editText(out.Faults[i].Message)
	}
	return &out
}

// redactError returns err if the rule finds nothing in it, else an error with its code and the redacted text, also under block.
func (m *Middleware) redactError(err error) error {
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

// withOp adds the operation to an error of an [editor]: [agent.CodeDenied] or errNotJSON.
func withOp(op string, err error) error {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return &agent.Error{Code: e.Code, Op: op, Err: e.Err}
	}
	return &agent.Error{Code: agent.CodeInternal, Op: op, Err: err}
}
