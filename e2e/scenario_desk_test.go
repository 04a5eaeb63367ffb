package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// deskName is the toolkit of the scenarios.
const deskName = "desk"

// desk is a toolkit with a tool for each way in which a call can go. It counts what took effect, by tenant: each run has its own.
type desk struct {
	mu      sync.Mutex
	effects map[string]map[string]int
	tries   map[string]int // of flaky, by idempotency key
}

func newDesk() *desk { return &desk{effects: map[string]map[string]int{}, tries: map[string]int{}} }

func (*desk) Name() string { return deskName }

// OnRequest keeps it out of the shipped agent, which has a patch_workflow of its own.
func (*desk) OnRequest() bool { return true }

// deskTools are the names of the tools.
func deskTools() []string {
	var names []string
	for _, t := range newDesk().Tools() {
		names = append(names, t.Spec().Name)
	}
	return names
}

// Tools lists them; testdata/scenarios/README.md says what each does.
func (d *desk) Tools() []agent.Tool {
	const free = `{"type":"object","properties":{"q":{"type":"string"}}}`
	const patch = `{"type":"object","required":["workflow_tag","patch_spec"],"additionalProperties":false,` +
		`"properties":{"workflow_tag":{"type":"string"},"patch_spec":{"type":"object"}}}`
	const to = `{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"}}}`
	const money = `{"type":"object","required":["amount","to"],"additionalProperties":false,` +
		`"properties":{"amount":{"type":"number"},"to":{"type":"string"}}}`
	safe := func(name, parameters string, call deskCall) agent.Tool {
		return freeTool{deskTool{
			spec: agent.ToolSpec{
				Name: name, Description: "Scenario tool " + name + ".", Parameters: json.RawMessage(parameters), Idempotent: true, InherentlySafe: true,
			},
			call: call,
		}}
	}
	effect := func(name, parameters string, strictly bool) agent.Tool {
		return deskTool{
			spec: agent.ToolSpec{
				Name: name, Description: "Scenario tool " + name + ".", Parameters: json.RawMessage(parameters), Strict: strictly,
			},
			call: d.takesEffect,
		}
	}
	flaky := deskTool{
		spec: agent.ToolSpec{
			Name: "flaky", Description: "Fails and then works.", Idempotent: true, InherentlySafe: true,
			Parameters: json.RawMessage(`{"type":"object","properties":{"fails":{"type":"integer"}}}`),
		},
		call: d.flaky,
	}
	slow := deskTool{
		spec: agent.ToolSpec{Name: "slow", Description: "Never ends by itself.", Parameters: json.RawMessage(free), InherentlySafe: true},
		call: never,
	}
	shaky := deskTool{
		spec: agent.ToolSpec{Name: "shaky", Description: "Takes effect and is cut off.", Parameters: json.RawMessage(free), InherentlySafe: true},
		call: func(_ context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
			d.count(inv.Tenant, call.Name)
			return agent.ToolResult{}, agent.Errorf(agent.CodeUnavailable, "shaky", "cut off")
		},
	}
	panics := deskTool{
		spec: agent.ToolSpec{Name: "panics", Description: "Panics.", Parameters: json.RawMessage(free), InherentlySafe: true},
		call: func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
			panic("out of paper") // what the tool is for
		},
	}
	return []agent.Tool{
		safe("lookup", free, finds), safe("broken", free, fails), safe("big", free, muchOutput), safe("secret", free, secrets),
		safe("patch_workflow", patch, patches),
		effect("send", to, false), effect("pay", money, true), flaky, shaky, slow, panics,
	}
}

type deskCall func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error)

type deskTool struct {
	spec agent.ToolSpec
	call deskCall
}

func (t deskTool) Spec() agent.ToolSpec { return t.spec }

func (t deskTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	return t.call(ctx, inv, call)
}

// freeTool has no effects.
type freeTool struct{ deskTool }

func (freeTool) EffectFree(json.RawMessage) bool { return true }

func finds(_ context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	var in struct{ Q string }
	if err := json.Unmarshal(call.Args, &in); err != nil {
		return agent.ToolResult{Failure: &agent.Failure{Type: string(agent.CodeInvalid), Message: err.Error()}}, nil //nolint:nilerr // data for the model
	}
	return answered(map[string]string{"found": in.Q})
}

func answered(v any) (agent.ToolResult, error) {
	out, err := json.Marshal(v)
	return agent.ToolResult{Output: out}, err
}

func fails(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return agent.ToolResult{Failure: &agent.Failure{Type: "out_of_order", Message: "the machine is broken"}}, nil
}

// muchOutput is more than a model is shown.
func muchOutput(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return answered(strings.Repeat("0123456789abcdef", 40<<10/16))
}

func secrets(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
	inv.Report("asking ann@example.com")
	return answered(map[string]string{"mail": "ann@example.com", "card": "4111 1111 1111 1111"})
}

// patches changes no workflow; it says that it did.
func patches(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return answered(map[string]string{"patch_id": "patch-1"})
}

// never ends until the call is stopped.
func never(ctx context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
	inv.Report("waiting")
	<-ctx.Done()
	return agent.ToolResult{}, context.Cause(ctx)
}

func (d *desk) takesEffect(_ context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	d.count(inv.Tenant, call.Name)
	return answered(map[string]any{"done": call.Name, "with": call.Args})
}

func (d *desk) flaky(_ context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	in := struct{ Fails int }{Fails: 1}
	if err := json.Unmarshal(call.Args, &in); err != nil {
		return agent.ToolResult{}, err
	}
	d.mu.Lock()
	d.tries[inv.Tenant+inv.IdempotencyKey]++
	n := d.tries[inv.Tenant+inv.IdempotencyKey]
	d.mu.Unlock()
	if n <= in.Fails {
		return agent.ToolResult{}, agent.Errorf(agent.CodeUnavailable, "flaky", "no answer the %d. time", n)
	}
	d.count(inv.Tenant, call.Name)
	return answered(map[string]int{"tries": n})
}

func (d *desk) count(tenant, tool string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.effects[tenant] == nil {
		d.effects[tenant] = map[string]int{}
	}
	d.effects[tenant][tool]++
}

// of is what took effect for a tenant.
func (d *desk) of(tenant string) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]int{}
	maps.Copy(out, d.effects[tenant])
	return out
}

// jumper is a middleware of the user's: it jumps where its options say.
type jumper struct {
	agent.Pass

	options jumperOptions
}

type jumperOptions struct {
	Before     string     `json:"before"` // jump to the end before the model, with these words, when the last message is When
	After      agent.Jump `json:"after"`  // jump there behind a reply that says When
	When       string     `json:"when"`
	Feedback   string     `json:"feedback"`
	Undeclared bool       `json:"undeclared"`
	Note       string     `json:"note"` // what it puts in front of the system prompt
}

func jumperMiddleware() turnstone.Middleware {
	return turnstone.Middleware{Name: "jumper", New: func(options json.RawMessage) (agent.Middleware, error) {
		var m jumper
		if len(options) > 0 {
			if err := strictjson.Decode(options, &m.options); err != nil {
				return nil, err
			}
		}
		return m, nil
	}}
}

func (m jumper) CanJumpTo() []agent.Jump {
	switch {
	case m.options.Undeclared:
		return nil
	case m.options.Before != "":
		return []agent.Jump{agent.JumpEnd}
	default:
		return []agent.Jump{m.options.After}
	}
}

func (m jumper) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	if m.options.Note != "" {
		req.System = m.options.Note + "\n" + req.System
	}
	if m.options.Before == "" || !strings.Contains(agent.Normalize(req.Messages[len(req.Messages)-1].Blocks), m.options.When) {
		return agent.JumpNone, nil
	}
	req.Answer = []agent.Block{agent.Text(m.options.Before)}
	return agent.JumpEnd, nil
}

func (m jumper) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	if m.options.After == "" || !strings.Contains(agent.Normalize(reply.Blocks), m.options.When) {
		return agent.JumpNone, nil
	}
	reply.Feedback = m.options.Feedback
	return m.options.After, nil
}

// hooks is a middleware of the user's with all four hooks: what each saw is in the next.
type hooks struct{ agent.Pass }

func hooksMiddleware() turnstone.Middleware {
	return turnstone.Middleware{Name: "hooks", New: func(json.RawMessage) (agent.Middleware, error) { return hooks{}, nil }}
}

func (hooks) BeforeModel(_ context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	req.System += fmt.Sprintf("\nbefore-model step %d", inv.Step)
	return agent.JumpNone, nil
}

func (hooks) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		req.System += "\nwrap-model"
		return next(ctx, inv, req, emit)
	}
}

func (hooks) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	for i := range reply.Blocks {
		if b := &reply.Blocks[i]; b.Type == agent.BlockToolCall {
			b.Args = json.RawMessage(`{"q":"after-model"}`)
		}
	}
	return agent.JumpNone, nil
}

func (hooks) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		result, err := next(ctx, inv, call)
		if err == nil {
			result.Output = json.RawMessage(strings.Replace(string(result.Output), "after-model", "after-model, wrap-tool", 1))
		}
		return result, err
	}
}
