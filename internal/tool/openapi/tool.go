package openapi

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/openapi"
)

// maxSummary is the maximum number of bytes of a summary.
const maxSummary = 100

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

// EffectFree reports whether the operation is a GET, HEAD or OPTIONS of a cached document. Unlike CheckEffects, it fetches nothing, and does
// not know the documents of the binding. Call refuses an operation with effects if the runtime believes that it has none.
func (t *action) EffectFree(args json.RawMessage) bool {
	a, err := parseArguments(args)
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

// CheckEffects reads the document and reports whether the operation is a GET, HEAD or OPTIONS, or is refused without a request.
func (t *action) CheckEffects(ctx context.Context, inv agent.Invocation, args json.RawMessage) bool {
	a, from, _, err := t.locateDocument(&inv, args)
	if err != nil {
		return true
	}
	doc, err := t.documents.get(ctx, &inv, from)
	if err != nil {
		return false
	}
	op, err := doc.Operation(ctx, a.operation, t.documents.fetchFile)
	if err != nil {
		return agent.CodeOf(err) == agent.CodeNotFound
	}
	return op.Safe()
}

// Summarize returns the operation ID.
func (*action) Summarize(args json.RawMessage) string {
	a, err := parseArguments(args)
	if err != nil {
		return "invalid arguments"
	}
	return clip.Bytes(strings.Join(strings.Fields(a.operation), " "), maxSummary-len("…"))
}

// Call sends an operation's request. The package comment says what is a failure and what an error.
func (t *action) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, cancelledError(ctx)
	}
	c, err := t.prepare(ctx, &inv, call.Args)
	if err != nil {
		return unsentResult(ctx, &inv, err)
	}
	return c.send(ctx)
}

// locateDocument parses the arguments and returns where their document is. It fetches nothing.
func (t *action) locateDocument(inv *agent.Invocation, args json.RawMessage) (a arguments, from documentLocation, b binding, err error) {
	if a, err = parseArguments(args); err != nil {
		return a, from, b, err
	}
	if b, err = parseBinding(inv.Parameters); err != nil {
		return a, from, b, err
	}
	if t.cfg.HTTP == nil {
		return a, from, b, agent.Errorf(agent.CodeDenied, "", "outbound requests are not configured")
	}
	from, err = b.findDocument(a.url)
	return a, from, b, err
}

// prepare returns the exchange of a call. It sends nothing that may have an effect.
func (t *action) prepare(ctx context.Context, inv *agent.Invocation, args json.RawMessage) (*exchange, error) {
	a, from, b, err := t.locateDocument(inv, args)
	if err != nil {
		return nil, err
	}
	doc, err := t.documents.get(ctx, inv, from)
	if err != nil {
		return nil, withField("openapi_url", err)
	}
	op, err := doc.Operation(ctx, a.operation, t.documents.fetchFile)
	if err != nil {
		return nil, withField("operation_id", err)
	}
	if inv.Repeatable && !op.Safe() {
		return nil, agent.FieldErrorf(agent.CodeConflict, "operation_id",
			"the document has changed: %q is now a %s, which may have effects; call it again", clip.Bytes(a.operation, 100), op.Method)
	}
	name, _ := strings.CutPrefix(a.url, catalogPrefix)
	req, err := op.Request(ctx, openapi.Input{
		Params: a.params, Order: a.order, Server: b.Servers[name], Unchecked: !b.checksRequests(), Open: inv.OpenBinary,
	})
	if err != nil {
		return nil, err
	}
	c := &exchange{
		cfg: t.cfg, inv: inv, op: op, request: req, warnings: req.Warnings, checksResponse: b.checksResponses(), hosts: b.AllowHosts,
		maxBytes: t.cfg.MaxResponse,
	}
	c.title = cmp.Or(op.ID, op.Method+" "+op.Path)
	if b.MaxResponse != nil {
		c.maxBytes = min(c.maxBytes, *b.MaxResponse)
	}
	return c, c.authorise(ctx, a.profile)
}

// withField sets the field of an error that names no argument.
func withField(field string, err error) error {
	if named := agent.FailureOf(err).Field; named != "" && named != "url" {
		return err
	}
	return agent.FieldErrorf(agent.CodeOf(err), field, "%w", err)
}
