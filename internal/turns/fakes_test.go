package turns_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// fakeCatalog has agents by name. The first agent is the default.
type fakeCatalog struct {
	mu     sync.Mutex
	t      *testing.T
	first  string
	agents map[string]agent.Plan
	plans  map[string]agent.Plan // by hash, including those of removed agents
	rule   *agent.RouteDecision  // the decision of the rules; nil for the default agent
	chosen int                   // the number of routed requests
	routed []agent.RouteDecision
}

func newFakeCatalog(t *testing.T, p agent.Plan) *fakeCatalog {
	t.Helper()
	f := &fakeCatalog{t: t, first: p.Agent, agents: map[string]agent.Plan{}, plans: map[string]agent.Plan{}}
	f.put(p)
	return f
}

// put adds or replaces an agent.
func (f *fakeCatalog) put(p agent.Plan) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, err := f.add(p)
	require.NoError(f.t, err)
	f.agents[p.Agent] = p
}

func (f *fakeCatalog) add(p agent.Plan) (agent.Plan, string, error) {
	_, hash, err := catalog.Encode(&p)
	f.plans[hash] = p
	return p, hash, err
}

// change replaces the first agent by a changed copy.
func (f *fakeCatalog) change(do func(*agent.Plan)) {
	f.t.Helper()
	p := f.agents[f.first]
	do(&p)
	f.put(p)
}

func (f *fakeCatalog) Choose(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chosen++
	switch {
	case c.Agent != "":
		return agent.RouteDecision{Agent: c.Agent, Reason: agent.RouteNamed}, nil
	case f.rule != nil:
		return *f.rule, nil
	default:
		return agent.RouteDecision{Agent: f.first, Reason: agent.RouteDefault}, nil
	}
}

func (f *fakeCatalog) Routed(d *agent.RouteDecision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routed = append(f.routed, *d)
}

func (f *fakeCatalog) Resolve(_ context.Context, _, name string) (agent.Plan, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.agents[name]
	if !ok {
		return agent.Plan{}, "", agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
	}
	return f.add(p)
}

func (f *fakeCatalog) ReplacePrompt(_ context.Context, p agent.Plan, prompt string) (agent.Plan, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.System = prompt
	return f.add(p)
}

func (f *fakeCatalog) Plan(_ context.Context, hash string) (agent.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.plans[hash]
	if !ok {
		return p, agent.Errorf(agent.CodeNotFound, "", "no plan %s", hash)
	}
	return p, nil
}

// fakeTool is the toolkit "fake" with one tool.
type fakeTool struct {
	call       func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error)
	effectFree bool
	reads      bool // the result of CheckEffects
	count      int

	listed    []agent.ListedTool // the tools of its source
	listFault error
	asked     int
}

func (f *fakeTool) Granted(_ context.Context, _ string, t *agent.PlanTool) (agent.Tool, error) {
	if t.Toolkit != "fake" || t.Spec.Name != "lookup" && t.Handle == "" {
		return nil, agent.Errorf(agent.CodeNotFound, "", "not granted in toolkit")
	}
	return f, nil
}

func (f *fakeTool) List(context.Context, string, *agent.PlanSource) ([]agent.ListedTool, error) {
	f.asked++
	return f.listed, f.listFault
}

func (f *fakeTool) Spec() agent.ToolSpec            { return agent.ToolSpec{Name: "lookup"} }
func (f *fakeTool) EffectFree(json.RawMessage) bool { return f.effectFree }

func (f *fakeTool) CheckEffects(_ context.Context, inv agent.Invocation, _ json.RawMessage) bool {
	return f.reads && inv.Tenant != "" && inv.Open != nil
}

func (f *fakeTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	f.count++
	return f.call(ctx, inv, call)
}

// fakeLibrary returns the same passages for every search, or an error.
type fakeLibrary struct {
	mu       sync.Mutex
	passages []agent.Passage
	err      error
	asked    []agent.KnowledgeQuery
}

func (f *fakeLibrary) Search(_ context.Context, q agent.KnowledgeQuery) ([]agent.Passage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
	return f.passages, f.err
}

type fakeRuns struct {
	turns.Runs

	mu      sync.Mutex
	ready   []string
	stopped []string
	batches []agent.TokenBatch
	decided []string
}

func (f *fakeRuns) Decide(_ context.Context, id string, d agent.Decision) (agent.DecisionVerdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided = append(f.decided, id+" "+string(d.Decision))
	return agent.DecisionVerdict{ApprovalID: d.ApprovalID, Decision: d.Decision, Run: true}, nil
}

func (*fakeRuns) Start(context.Context, turns.TurnRef) error { return nil }

func (*fakeRuns) Look(context.Context, string) (turns.WorkflowState, error) {
	return turns.WorkflowState{Exists: true, Running: true}, nil
}

func (f *fakeRuns) Ready(_ context.Context, id string) error {
	f.ready = append(f.ready, id)
	return nil
}

func (f *fakeRuns) Interrupt(_ context.Context, id string, _ agent.CancelRequest) error {
	f.stopped = append(f.stopped, id)
	return nil
}

func (f *fakeRuns) Tokens(_ context.Context, _ agent.StreamTo, b agent.TokenBatch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, b)
	return nil
}

// fakeBlobs keeps blobs in memory.
type fakeBlobs struct{ m sync.Map }

func (*fakeBlobs) S3Ref(_, _ string) string { return "" }

func (f *fakeBlobs) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	sum := sha256.Sum256(b)
	ref := "cas://sha256:" + hex.EncodeToString(sum[:])
	f.m.Store(ref, b)
	return ref, err
}

func (f *fakeBlobs) Open(_ context.Context, _, ref string) (io.ReadCloser, error) {
	b, ok := f.m.Load(ref)
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no %s", ref)
	}
	return io.NopCloser(bytes.NewReader(b.([]byte))), nil
}
