package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/turns"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// harness is a [turns.Turns] on a real database, with a scripted model and a fake tool.
type harness struct {
	*turns.Turns
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	spy   *spyStore // the store that the activities use
	log   *pgstream.Log
	model scriptedModel
	tool  *fakeTool
	runs  *fakeRuns
	blobs *fakeBlobs

	catalog *fakeCatalog
	library *fakeLibrary
	config  turns.Config
}

// database returns an empty database, with its store and its event log.
func database(t *testing.T) (*pgxpool.Pool, *postgres.Store, *pgstream.Log) {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: postgrestest.New(t)})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	log, err := pgstream.New(t.Context(), pgstream.Config{Pool: pool, Logger: zaptest.NewLogger(t)})
	require.NoError(t, err)
	t.Cleanup(log.Stop)
	return pool, postgres.NewStore(pool, postgres.Config{}), log
}

func newHarness(t *testing.T, change ...func(*turns.Config)) *harness {
	t.Helper()
	pool, store, log := database(t)
	h := &harness{
		t: t, pool: pool, store: store, log: log, tool: &fakeTool{}, runs: &fakeRuns{}, blobs: &fakeBlobs{}, library: &fakeLibrary{},
	}
	h.spy = &spyStore{Store: h.store, tools: map[agent.StepKey]agent.ToolStep{}}
	h.catalog = newFakeCatalog(t, agent.Plan{
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

// process returns another [turns.Turns] with the same store, whose cache it shares.
func (h *harness) process() *turns.Turns {
	h.t.Helper()
	a, err := turns.New(h.config)
	require.NoError(h.t, err)
	return a
}

// separateProcess returns another [turns.Turns] with a store of its own, like another process.
func (h *harness) separateProcess() *turns.Turns {
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

// The following methods call the activity of the same name, which must not fail.

func (h *harness) callModel(id agent.TurnID, step int) agent.ModelVerdict {
	h.t.Helper()
	v, err := h.CallModel(h.t.Context(), turns.CallModelInput{TurnID: id, Step: step})
	require.NoError(h.t, err)
	return v
}

func (h *harness) callTool(in turns.CallToolInput) agent.ToolVerdict {
	h.t.Helper()
	v, err := h.CallTool(h.t.Context(), in)
	require.NoError(h.t, err)
	return v
}

func (h *harness) beginChild(in turns.BeginChildInput) turns.BeginChildResult {
	h.t.Helper()
	out, err := h.BeginChild(h.t.Context(), in)
	require.NoError(h.t, err)
	return out
}

func (h *harness) retrieve(in turns.RetrieveInput) agent.PrepareVerdict {
	h.t.Helper()
	v, err := h.Retrieve(h.t.Context(), in)
	require.NoError(h.t, err)
	return v
}

func (h *harness) decide(id agent.TurnID, d agent.Decision) turns.DecideResult {
	h.t.Helper()
	out, err := h.Decide(h.t.Context(), turns.DecideInput{TurnID: id, Decision: d})
	require.NoError(h.t, err)
	return out
}

func (h *harness) storeTurn(in turns.StoreTurnInput) turns.StoreTurnResult {
	h.t.Helper()
	out, err := h.StoreTurn(h.t.Context(), in)
	require.NoError(h.t, err)
	return out
}

// completeTurn ends a turn with its last reply as the answer.
func (h *harness) completeTurn(id agent.TurnID) turns.StoreTurnResult {
	h.t.Helper()
	return h.storeTurn(turns.StoreTurnInput{TurnID: id, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
}

// turn returns the stored state of a turn.
func (h *harness) turn(id agent.TurnID) agent.TurnState {
	h.t.Helper()
	t, err := h.store.Turn(h.t.Context(), id)
	require.NoError(h.t, err)
	return t
}

// events returns the events that are now in a turn's log.
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

// scriptedModel is a model that plays the steps of a script one after the other.
type scriptedModel struct {
	mu    sync.Mutex
	steps []modelStep
	seen  []agent.ModelRequest
}

type modelStep func(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error)

func (s *scriptedModel) script(steps ...modelStep) { s.steps = steps }

func (s *scriptedModel) Model(context.Context, agent.PlanModel) (agent.Model, error) { return s, nil }

func (s *scriptedModel) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
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
func says(words ...string) modelStep {
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

func calls(blocks ...agent.Block) modelStep {
	return func(_ context.Context, req agent.ModelRequest, _ func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{Blocks: blocks, FinishReason: agent.FinishToolCalls, Model: req.Model}, nil
	}
}

func toolCall(id, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: "lookup", Args: json.RawMessage(args)}
}

// hangs streams a text and then waits until it is stopped.
func hangs(first string, stopped chan<- struct{}) modelStep {
	return func(ctx context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		defer close(stopped)
		if err := emit(agent.Delta{Text: first}); err != nil {
			return agent.ModelReply{}, err
		}
		<-ctx.Done()
		return agent.ModelReply{}, context.Cause(ctx)
	}
}
