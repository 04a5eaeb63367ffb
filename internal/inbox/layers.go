package inbox

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/doctor"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Layers returns the layers around a model call, innermost first, in the order in which a probe reaches them. The probe is a model call and a tool
// call in the code that serves turns, with a model, a tool and stores of its own.
func Layers(ctx context.Context) ([]string, error) {
	p := &probe{}
	acts, err := turns.New(turns.Config{
		Registry: p, Models: p, Tools: p, Middleware: p, Observer: p, Store: &probeStore{}, Log: probeLog{},
		Blobs: struct{ turns.Blobs }{}, Runs: struct{ turns.Runs }{}, Schemas: struct{ turns.Schemas }{},
		Knowledge: struct{ turns.Knowledge }{},
	})
	if err != nil {
		return nil, err
	}
	verdict, err := acts.CallModel(ctx, turns.CallModelInput{TurnID: probeName, Step: 1})
	if err != nil {
		return nil, err
	}
	for _, c := range verdict.Calls {
		if _, err := acts.CallTool(ctx, turns.CallToolInput{TurnID: probeName, Step: 1, CallID: c.ID}); err != nil {
			return nil, err
		}
	}
	return p.layers, nil
}

// probeName is the name of the probe's turn, tenant, model, tool and call.
const probeName = "probe"

// probe records the layers that it reaches. It is the catalog, the model, the tool and the observer of its turn.
type probe struct {
	agent.Unobserved
	turns.Registry // only Plan is called

	layers   []string // innermost first
	answered bool     // the model call is over
}

// enter records a layer inside those that were reached before.
func (p *probe) enter(layer string) {
	if !slices.Contains(p.layers, layer) {
		p.layers = slices.Insert(p.layers, 0, layer)
	}
}

func (p *probe) Plan(context.Context, string) (agent.Plan, error) {
	return agent.Plan{
		Agent: probeName, Models: []agent.PlanModel{{Profile: probeName, Model: probeName}},
		Tools: []agent.PlanTool{{Spec: agent.ToolSpec{Name: probeName, InherentlySafe: true}, Toolkit: probeName}},
	}, nil
}

func (p *probe) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	if w.Name != "CallModel" {
		return ctx, func(error) {}
	}
	p.enter(doctor.LayerObservability)
	return ctx, func(error) { p.answered = true }
}

func (p *probe) Request(ctx context.Context, _ agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	p.enter(doctor.LayerRequests)
	return ctx, func(agent.ModelOutcome) {}
}

func (p *probe) Chain(*agent.Plan) ([]agent.Middleware, error) {
	return []agent.Middleware{probeMiddleware{probe: p}}, nil
}

func (p *probe) Model(context.Context, agent.PlanModel) (agent.Model, error) { return p, nil }

func (p *probe) Generate(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
	return agent.ModelReply{
		Blocks:       []agent.Block{{Type: agent.BlockToolCall, ID: probeName, Name: probeName, Args: json.RawMessage(`{}`)}},
		FinishReason: agent.FinishToolCalls, Model: probeName,
	}, nil
}

func (p *probe) Granted(context.Context, string, *agent.PlanTool) (agent.Tool, error) { return p, nil }

func (p *probe) List(context.Context, string, *agent.PlanSource) ([]agent.ListedTool, error) {
	return nil, nil
}

func (p *probe) Spec() agent.ToolSpec { return agent.ToolSpec{Name: probeName} }

// Call records the layer of tools: outside of the model call if that has ended, else inside all its layers.
func (p *probe) Call(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	if p.answered {
		p.layers = append(p.layers, doctor.LayerTools)
	} else {
		p.enter(doctor.LayerTools)
	}
	return agent.ToolResult{Output: json.RawMessage(`{}`)}, nil
}

type probeMiddleware struct {
	agent.Pass

	probe *probe
}

func (m probeMiddleware) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		m.probe.enter(doctor.LayerMiddleware)
		return next(ctx, inv, req, emit)
	}
}

// probeStore keeps the model's reply for the tool call.
type probeStore struct {
	turns.TurnStore // only the methods below are called

	reply agent.ModelStep
}

func (*probeStore) Turn(_ context.Context, id agent.TurnID) (agent.TurnState, error) {
	return agent.TurnState{Record: agent.TurnRecord{TurnID: id, Tenant: probeName, SessionID: probeName, Binding: agent.Binding{PlanHash: probeName}}}, nil
}

func (*probeStore) Prompt(context.Context, agent.PromptQuery) ([]agent.Message, *agent.ModelStep, error) {
	return []agent.Message{agent.UserText(probeName)}, nil, nil
}

func (s *probeStore) CallSteps(context.Context, agent.StepKey) (*agent.ModelStep, *agent.ToolStep, error) {
	return &s.reply, nil, nil
}

func (s *probeStore) SaveModelStep(_ context.Context, step agent.ModelStep) error {
	s.reply = step
	return nil
}

func (*probeStore) SaveToolStep(context.Context, agent.ToolStep) error { return nil }

func (*probeStore) ChargeUsage(context.Context, agent.StepKey, string, []agent.UsageEntry) error {
	return nil
}

// probeLog discards events.
type probeLog struct{ turns.EventLog } // only the methods below are called

func (probeLog) Begin(_ context.Context, stream, producer string) (agent.Fence, agent.Appended, error) {
	return agent.Fence{StreamID: stream, Producer: producer, Epoch: 1}, agent.Appended{}, nil
}

func (probeLog) Reset(context.Context, agent.Fence) (agent.Appended, error) {
	return agent.Appended{}, nil
}

func (probeLog) Append(context.Context, agent.Fence, int64, []agent.Event) (agent.Appended, error) {
	return agent.Appended{}, nil
}

func (probeLog) Touch(context.Context, agent.Fence) (agent.Appended, error) {
	return agent.Appended{}, nil
}

func (probeLog) Sync(context.Context, agent.Fence) error { return nil }

func (probeLog) Take(agent.Fence) agent.UnstoredEvents { return nil }
