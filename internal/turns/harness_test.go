package turns_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/turns"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// harness is a set of activities on a real database, with a scripted model and tool.
type harness struct {
	*turns.Turns
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	spy   *spyStore // what the activities see of it
	log   *pgstream.Log
	model scripted
	tool  *fakeTool
	runs  *fakeRuns
	blobs *fakeBlobs

	catalog *fixed
	library *fakeLibrary
	config  turns.Config
}

func newHarness(t *testing.T, change ...func(*turns.Config)) *harness {
	t.Helper()
	ctx := t.Context()
	pool, err := postgres.Open(ctx, postgres.Config{URL: postgrestest.New(t)})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	h := &harness{
		t: t, pool: pool, store: postgres.NewStore(pool, postgres.Config{}), tool: &fakeTool{}, runs: &fakeRuns{}, blobs: &fakeBlobs{}, library: &fakeLibrary{},
	}
	h.spy = &spyStore{Store: h.store, tools: map[agent.StepKey]agent.ToolStep{}}
	h.log, err = pgstream.New(ctx, pgstream.Config{Pool: pool, Logger: zaptest.NewLogger(t)})
	require.NoError(t, err)
	t.Cleanup(h.log.Stop)
	h.catalog = newFixed(t, agent.Plan{
		Agent: "analyst", InstanceID: "analyst@1", System: "You are an analyst.",
		Models: []agent.PlanModel{{Profile: "default", Model: "scripted-1", InputPerMTok: 1, OutputPerMTok: 10}, {Profile: "other", Model: "scripted-2"}},
		Tools:  []agent.PlanTool{{Spec: agent.ToolSpec{Name: "lookup", Parameters: json.RawMessage(`{"type":"object"}`)}, Toolkit: "fake"}},
		Middleware: []agent.PlanMiddleware{{
			Name: "model_retry", Options: json.RawMessage(`{"max_retries":1,"initial_delay":0.01,"max_delay":1}`),
		}},
		Limits: agent.Limits{ModelCalls: 25, ToolCalls: 50},
	})
	set, err := middleware.NewSet(middleware.Builtin(2, nil)...)
	require.NoError(t, err)
	cfg := turns.Config{
		Registry: h.catalog, Models: &h.model, Tools: h.tool, Middleware: set, Store: h.spy, Log: h.log, Blobs: h.blobs, Runs: h.runs,
		Schemas: schema.New(), Knowledge: h.library, Logger: zaptest.NewLogger(t),
	}
	for _, c := range change {
		c(&cfg)
	}
	h.config = cfg
	h.Turns = h.process()
	return h
}

// process is another process of the same cluster.
func (h *harness) process() *turns.Turns {
	h.t.Helper()
	a, err := turns.New(h.config)
	require.NoError(h.t, err)
	return a
}

// machine is a process with memory of its own, as on another machine.
func (h *harness) machine() *turns.Turns {
	h.t.Helper()
	c := h.config
	c.Store = postgres.NewStore(h.pool, postgres.Config{})
	a, err := turns.New(c)
	require.NoError(h.t, err)
	return a
}

// begin begins a turn that holds its session.
func (h *harness) begin(req agent.TurnRequest) turns.TurnRef {
	h.t.Helper()
	if req.Message == "" && len(req.Messages) == 0 {
		req.Message = "hello"
	}
	out, err := h.Begin(h.t.Context(), req, turns.BeginTurnInput{WorkflowID: "turn/" + string(req.TurnID), RunID: "run-" + h.t.Name()})
	require.NoError(h.t, err)
	require.Equal(h.t, turns.VerdictReady, out.Verdict)
	return out.Turn
}

// events reads what is in the turn's log now.
func (h *harness) events(id agent.TurnID) []agent.Event {
	h.t.Helper()
	tail, err := h.log.Tail(h.t.Context(), string(id))
	require.NoError(h.t, err)
	var out []agent.Event
	for e, err := range h.log.Follow(h.t.Context(), string(id), 0) {
		require.NoError(h.t, err)
		require.Equal(h.t, int64(len(out)+1), e.Meta.EventIndex, "contiguous")
		out = append(out, e)
		if e.Meta.EventIndex == tail.LastIndex {
			break
		}
	}
	return out
}

func types(events []agent.Event) []agent.EventType {
	out := make([]agent.EventType, 0, len(events))
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// scripted is a model that plays one step after the other.
type scripted struct {
	mu    sync.Mutex
	steps []play
	seen  []agent.ModelRequest
}

type play func(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error)

func (s *scripted) script(steps ...play) { s.steps = steps }

func (s *scripted) Model(context.Context, agent.PlanModel) (agent.Model, error) { return s, nil }

func (s *scripted) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	s.mu.Lock()
	s.seen = append(s.seen, req)
	if len(s.steps) == 0 {
		s.mu.Unlock()
		return agent.ModelReply{}, errors.New("the script is over")
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	s.mu.Unlock()
	return next(ctx, req, emit)
}

// says streams words and ends.
func says(words ...string) play {
	return func(_ context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		var all string
		for _, w := range words {
			if err := emit(agent.Delta{Text: w}); err != nil {
				return agent.ModelReply{}, err
			}
			all += w
		}
		return agent.ModelReply{
			Blocks: []agent.Block{agent.Text(all)}, FinishReason: agent.FinishStop, Model: req.Model,
			Usage: agent.Usage{InputTokens: 100, OutputTokens: 10},
		}, nil
	}
}

func calls(blocks ...agent.Block) play {
	return func(_ context.Context, req agent.ModelRequest, _ func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{Blocks: blocks, FinishReason: agent.FinishToolCalls, Model: req.Model}, nil
	}
}

func toolCall(id, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: "lookup", Args: json.RawMessage(args)}
}

// hangs says something and then waits to be stopped.
func hangs(first string, stopped chan<- struct{}) play {
	return func(ctx context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		defer close(stopped)
		if err := emit(agent.Delta{Text: first}); err != nil {
			return agent.ModelReply{}, err
		}
		<-ctx.Done()
		return agent.ModelReply{}, context.Cause(ctx)
	}
}

// fakeTool is the toolkit "fake" with one tool.
type fakeTool struct {
	call  func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error)
	free  bool
	reads bool // what the call does is found out by reading: it has no effects
	count int

	listed    []agent.ListedTool // by its source
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
func (f *fakeTool) EffectFree(json.RawMessage) bool { return f.free }

func (f *fakeTool) CheckEffects(_ context.Context, inv agent.Invocation, _ json.RawMessage) bool {
	return f.reads && inv.Tenant != "" && inv.Open != nil
}

func (f *fakeTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	f.count++
	return f.call(ctx, inv, call)
}

// fakeLibrary answers every search with what it was given, or fails.
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

// fixed is a catalog of one agent; put replaces it, as a change of the catalog would.
type fixed struct {
	mu     sync.Mutex // of routed
	t      *testing.T
	plan   agent.Plan
	hash   string
	plans  map[string]agent.Plan
	routed []agent.RouteDecision
	rule   *agent.RouteDecision // what the rules say; nil: the default
}

func newFixed(t *testing.T, p agent.Plan) *fixed {
	t.Helper()
	f := &fixed{t: t, plans: map[string]agent.Plan{}}
	f.put(p)
	return f
}

func (f *fixed) put(p agent.Plan) {
	f.t.Helper()
	_, hash, err := catalog.Encode(&p)
	require.NoError(f.t, err)
	f.plan, f.hash, f.plans[hash] = p, hash, p
}

func (f *fixed) Choose(_ context.Context, c agent.RouteContext) (agent.RouteDecision, error) {
	switch {
	case c.Agent != "":
		return agent.RouteDecision{Agent: c.Agent, Reason: agent.RouteNamed}, nil
	case f.rule != nil:
		return *f.rule, nil
	default:
		return agent.RouteDecision{Agent: f.plan.Agent, Reason: agent.RouteDefault}, nil
	}
}

func (f *fixed) Routed(d *agent.RouteDecision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routed = append(f.routed, *d)
}

func (f *fixed) Resolve(_ context.Context, _, name string) (agent.Plan, string, error) {
	if name != f.plan.Agent {
		return agent.Plan{}, "", agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
	}
	return f.plan, f.hash, nil
}

func (*fixed) ReplacePrompt(_ context.Context, p agent.Plan, _ string) (agent.Plan, string, error) {
	return p, "", agent.Invalid("prompt", "cannot be replaced")
}

func (f *fixed) Plan(_ context.Context, hash string) (agent.Plan, error) {
	p, ok := f.plans[hash]
	if !ok {
		return p, agent.Errorf(agent.CodeNotFound, "", "no plan %s", hash)
	}
	return p, nil
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
