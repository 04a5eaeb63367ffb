package direct_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// world is a driver on a real database. It is also everything else that a turn meets: the plan, the model, the tool, and Temporal.
type world struct {
	turns.Runs // only the methods below are called
	*direct.Driver
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	log   *pgstream.Log
	plan  agent.Plan
	hash  string

	mu      sync.Mutex
	play    func(ctx context.Context, n int, emit func(agent.Delta) error) (agent.ModelReply, error)
	asked   int
	seen    []agent.ModelRequest
	ran     int
	started chan handed
	woken   chan string // ids of workflows
	refuse  error       // of Temporal

	running   int // direct turns, as the watch is told
	fallbacks []agent.Fallback
}

// handed is a turn that Temporal was given.
type handed struct {
	turn  turns.TurnRef
	carry *workflows.Carry
	steps int // stored by then
}

func newWorld(t *testing.T, side int, change ...func(*turns.Config, *direct.Config)) *world {
	t.Helper()
	return newWorldOn(t, side, postgrestest.New(t), change...)
}

func newWorldOn(t *testing.T, side int, dsn string, change ...func(*turns.Config, *direct.Config)) *world {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: dsn})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w := &world{t: t, pool: pool, store: postgres.NewStore(pool, postgres.Config{}), started: make(chan handed, 10), woken: make(chan string, 10)}
	w.log, err = pgstream.New(t.Context(), pgstream.Config{Pool: pool})
	require.NoError(t, err)
	t.Cleanup(w.log.Stop)
	w.plan = agent.Plan{
		Agent: "clerk", InstanceID: "clerk@1", Models: []agent.PlanModel{{Profile: "p", Model: "m"}},
		Tools: []agent.PlanTool{
			{Spec: agent.ToolSpec{Name: "look", InherentlySafe: true, ReadsDatasets: true}, Toolkit: "kit"}, {Spec: agent.ToolSpec{Name: "pay"}, Toolkit: "kit"},
		},
	}
	_, w.hash, err = catalog.Encode(&w.plan)
	require.NoError(t, err)
	set, err := middleware.NewSet(middleware.Builtin(0, nil)...)
	require.NoError(t, err)
	config := turns.Config{
		Registry: w, Models: w, Tools: w, Middleware: set, Store: w.store, Log: w.log, Blobs: nowhere{}, Runs: w, Schemas: schema.New(), Knowledge: w,
	}
	driver := direct.Config{Start: w.start, Watch: w, MaxTurns: side}
	for _, c := range change {
		c(&config, &driver)
	}
	driver.Turns, err = turns.New(config)
	require.NoError(t, err)
	w.Driver, err = direct.New(driver)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Stop(context.Background())) })
	return w
}

func (w *world) start(ctx context.Context, r *turns.TurnRef, carry *workflows.Carry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	h := handed{turn: *r, carry: carry}
	err := w.pool.QueryRow(ctx, `SELECT count(*) FROM turn_steps WHERE turn_id = $1`, r.TurnID).Scan(&h.steps)
	w.started <- h
	return err
}

func (w *world) submit(id agent.TurnID, s agent.SessionID) (agent.Receipt, int, bool) {
	w.t.Helper()
	r, position, refused, err := w.Submit(w.t.Context(), agent.TurnRequest{TurnID: id, SessionID: s, Message: "hello", Mode: agent.ModeDirect}, nil)
	require.NoError(w.t, err)
	return r, position, refused == ""
}

func (w *world) DirectTurns(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += change
}

func (w *world) DirectFallback(why agent.Fallback) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fallbacks = append(w.fallbacks, why)
}

// fellBack checks that a turn runs as a workflow, and that record, events and watch say why.
func (w *world) fellBack(id agent.TurnID, why agent.Fallback) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		state, err := w.store.Turn(w.t.Context(), id)
		return err == nil && state.Record.Mode == agent.ModeDurable && state.Record.Fallback == why && state.Lease.IsZero()
	}, 10*time.Second, 10*time.Millisecond, "the record says that a workflow has it, and why")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, []agent.Fallback{why}, w.fallbacks)
}

// lastReason is that of the last status RUNNING in a turn's log, whose events are contiguous.
func (w *world) lastReason(id agent.TurnID) (reason string) {
	w.t.Helper()
	tail, err := w.log.Tail(w.t.Context(), string(id))
	require.NoError(w.t, err)
	index := int64(0)
	for e, err := range w.log.Follow(w.t.Context(), string(id), 0) {
		require.NoError(w.t, err)
		index++
		require.Equal(w.t, index, e.Meta.EventIndex)
		if e.Type == agent.EventStatus && e.Status == agent.StatusRunning {
			reason = e.Reason
		}
		if index == tail.LastIndex {
			break
		}
	}
	return reason
}

// follow reads a turn's events to its end.
func (w *world) follow(id agent.TurnID) (events []agent.Event) {
	w.t.Helper()
	for e, err := range w.log.Follow(w.t.Context(), string(id), 0) {
		require.NoError(w.t, err)
		events = append(events, e)
	}
	return events
}

func (w *world) Choose(context.Context, agent.RouteContext) (agent.RouteDecision, error) {
	return agent.RouteDecision{Agent: "clerk"}, nil
}
func (*world) Routed(*agent.RouteDecision) {}
func (*world) ReplacePrompt(_ context.Context, p agent.Plan, _ string) (agent.Plan, string, error) {
	return p, "", agent.Invalid("prompt", "cannot be replaced")
}

func (w *world) Resolve(context.Context, string, string) (agent.Plan, string, error) {
	return w.plan, w.hash, nil
}

func (w *world) Plan(context.Context, string) (agent.Plan, error) { return w.plan, nil }

func (w *world) Model(context.Context, agent.PlanModel) (agent.Model, error) { return w, nil }

func (w *world) Granted(_ context.Context, _ string, t *agent.PlanTool) (agent.Tool, error) {
	return tool{w, t.Spec.Name}, nil
}

func (*world) List(context.Context, string, *agent.PlanSource) ([]agent.ListedTool, error) {
	return nil, nil
}

func (*world) Search(context.Context, agent.KnowledgeQuery) ([]agent.Passage, error) { return nil, nil }

func (w *world) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	w.mu.Lock()
	w.asked++
	w.seen = append(w.seen, req)
	n, play := w.asked, w.play
	w.mu.Unlock()
	return play(ctx, n, emit)
}

func (w *world) Ready(ctx context.Context, workflowID string) error {
	if ctx.Err() == nil {
		w.woken <- workflowID
	}
	return ctx.Err()
}
func (*world) Interrupt(context.Context, string, agent.CancelRequest) error   { return nil }
func (*world) Tokens(context.Context, agent.StreamTo, agent.TokenBatch) error { return nil }
func (*world) Decide(context.Context, string, agent.Decision) (agent.DecisionVerdict, error) {
	return agent.DecisionVerdict{}, errors.New("nobody waits")
}

// tool is either of the two.
type tool struct {
	w    *world
	name string
}

func (t tool) Spec() agent.ToolSpec { return agent.ToolSpec{Name: t.name} }

func (t tool) EffectFree(json.RawMessage) bool { return t.name == "look" }

func (t tool) Call(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.ran++
	return agent.ToolResult{Output: json.RawMessage(`"seen"`)}, nil
}

type nowhere struct{}

func (nowhere) S3Ref(_, _ string) string { return "" }

func (nowhere) Put(context.Context, string, io.Reader) (string, error) {
	return "", errors.New("no store")
}

func (nowhere) Open(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.New("no store")
}

// says answers with words.
func says(emit func(agent.Delta) error, text string) (agent.ModelReply, error) {
	if err := emit(agent.Delta{Text: text}); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop, Model: "m"}, nil
}

// calls asks for tools.
func calls(names ...string) (agent.ModelReply, error) {
	r := agent.ModelReply{FinishReason: agent.FinishToolCalls, Model: "m"}
	for i, name := range names {
		r.Blocks = append(r.Blocks, agent.Block{Type: agent.BlockToolCall, ID: string(rune('a' + i)), Name: name, Args: json.RawMessage(`{}`)})
	}
	return r, nil
}
