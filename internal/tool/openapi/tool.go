package openapi

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/openapi"
)

// maxSummary is the longest text that a turn's history takes of a call.
const maxSummary = 100

// The tool says of each call whether it has effects, and what it does.
var (
	_ agent.EffectFree    = (*action)(nil)
	_ agent.EffectChecker = (*action)(nil)
	_ agent.Summarizer    = (*action)(nil)
)

// action is the tool openapi_action.
type action struct {
	cfg       Config
	documents *documents
}

func (*action) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        ToolName,
		Description: "Call any OpenAPI-compliant API dynamically",
		Parameters:  append(json.RawMessage(nil), schema...),
		Strict:      true,
	}
}

// EffectFree is true for GET, HEAD and OPTIONS operations of documents that are known already: it may fetch nothing, as CheckEffects may.
// Call refuses the other methods when it was told that the call has none. A document of the binding has no known name here.
func (t *action) EffectFree(args json.RawMessage) bool {
	a, err := parse(args)
	if err != nil {
		return true
	}
	if strings.HasPrefix(a.url, catalogPrefix) {
		return false
	}
	u, err := parseURL(a.url)
	if err != nil {
		return true
	}
	return openapi.SafeMethod(t.documents.method(u, a.operation))
}

// CheckEffects reads the document, and is true for its GET, HEAD and OPTIONS operations and for calls that are refused without a request.
func (t *action) CheckEffects(ctx context.Context, inv agent.Invocation, args json.RawMessage) bool {
	a, from, _, err := t.locate(&inv, args)
	if err != nil {
		return true
	}
	doc, err := t.documents.get(ctx, &inv, from)
	if err != nil {
		return false
	}
	op, err := doc.Operation(ctx, a.operation, t.documents.other)
	if err != nil {
		return agent.CodeOf(err) == agent.CodeNotFound
	}
	return op.Safe()
}

// Summarize names the operation.
func (*action) Summarize(args json.RawMessage) string {
	a, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return clip.Bytes(strings.Join(strings.Fields(a.operation), " "), maxSummary-len("…"))
}

// Call sends an operation's request; see the package comment for what is a failure and what an error.
func (t *action) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, ended(ctx)
	}
	c, err := t.prepare(ctx, &inv, call.Args)
	if err != nil {
		return unsent(ctx, &inv, err)
	}
	return c.do(ctx)
}

// locate reads the arguments and says where their document is. It fetches nothing.
func (t *action) locate(inv *agent.Invocation, args json.RawMessage) (a arguments, from source, b binding, err error) {
	if a, err = parse(args); err != nil {
		return a, from, b, err
	}
	if b, err = bindingOf(inv.Parameters); err != nil {
		return a, from, b, err
	}
	if t.cfg.HTTP == nil {
		return a, from, b, agent.Errorf(agent.CodeDenied, "", "outbound requests are not configured")
	}
	from, err = b.source(a.url)
	return a, from, b, err
}

// prepare makes the request. Nothing that may have an effect is sent.
func (t *action) prepare(ctx context.Context, inv *agent.Invocation, args json.RawMessage) (*exchange, error) {
	a, from, b, err := t.locate(inv, args)
	if err != nil {
		return nil, err
	}
	doc, err := t.documents.get(ctx, inv, from)
	if err != nil {
		return nil, about("openapi_url", err)
	}
	op, err := doc.Operation(ctx, a.operation, t.documents.other)
	if err != nil {
		return nil, about("operation_id", err)
	}
	if inv.Repeatable && !op.Safe() {
		return nil, agent.FieldErrorf(agent.CodeConflict, "operation_id",
			"the document has changed: %q is now a %s, which may have effects; call it again", clip.Bytes(a.operation, 100), op.Method)
	}
	name, _ := strings.CutPrefix(a.url, catalogPrefix)
	req, err := op.Request(ctx, openapi.Input{
		Params: a.params, Server: b.Servers[name], Unchecked: !b.checksRequests(), Open: inv.OpenBinary,
	})
	if err != nil {
		return nil, err
	}
	c := &exchange{cfg: t.cfg, inv: inv, op: op, made: req, warnings: req.Warnings, checks: b.checksResponses(), hosts: b.AllowHosts, most: t.cfg.MaxResponse}
	if c.title = op.ID; c.title == "" {
		c.title = op.Method + " " + op.Path
	}
	if b.MaxResponse != nil {
		c.most = min(c.most, *b.MaxResponse)
	}
	return c, c.authorise(ctx, a.profile)
}

// about names the field at fault unless the error does.
func about(field string, err error) error {
	if has := agent.FailureOf(err).Field; has != "" && has != "url" {
		return err
	}
	return agent.FieldErrorf(agent.CodeOf(err), field, "%w", err)
}
