package results_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

var (
	_ tool.Datasets  = results.Reader{}
	_ tool.Results   = results.Cache{}
	_ results.Memory = (*postgres.Store)(nil)
	_ results.Rows   = (*postgres.Store)(nil)
	_ results.Ledger = (*postgres.Store)(nil)
	_ blob.Ledger    = (*postgres.Store)(nil)
	_ results.Bucket = (*blob.Store)(nil)
	_ results.Blobs  = (*blob.Store)(nil)
)

const tenant = "acme"

// world is a database and a bucket.
type world struct {
	*postgres.Store
	t     testing.TB
	pool  *pgxpool.Pool
	url   string // of the bucket
	dir   string
	blobs *blob.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c := postgres.Config{URL: postgrestest.New(t)}
	pool, err := postgres.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w := &world{Store: postgres.NewStore(pool, c), t: t, pool: pool, dir: t.TempDir()}
	w.url = "file://" + w.dir
	w.blobs = w.bucket()
	return w
}

// bucket opens the bucket again, as another process does.
func (w *world) bucket() *blob.Store {
	w.t.Helper()
	s, err := blob.Open(w.t.Context(), w.url, blob.WithLedger(w.Store))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
	return s
}

func (w *world) collector(bucket results.Bucket) *results.Collector {
	return results.NewCollector(results.CollectorConfig{Ledger: w.Store, Bucket: bucket})
}

func (w *world) put(content string) (ref string) {
	w.t.Helper()
	ref, err := w.blobs.Put(w.t.Context(), tenant, bytes.NewReader([]byte(content)))
	require.NoError(w.t, err)
	return ref
}

func (w *world) exec(sql string) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql)
	require.NoError(w.t, err)
}

// age makes all content older than the grace period.
func (w *world) age() {
	w.t.Helper()
	w.exec(`UPDATE blobs SET put_at = put_at - interval '2 hours'`)
}

// count returns the number of rows of a table.
func (w *world) count(table string) int {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// objects counts the content in the bucket.
func (w *world) objects() int {
	w.t.Helper()
	page, next, err := w.blobs.Objects(w.t.Context(), nil, 10_000)
	require.NoError(w.t, err)
	require.Empty(w.t, next)
	return len(page)
}

func read(r io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(r)
	return string(body), errors.Join(err, r.Close())
}

// has reports whether content can be read.
func (w *world) has(ref string) bool {
	w.t.Helper()
	_, err := read(w.blobs.Open(w.t.Context(), tenant, ref))
	if agent.CodeOf(err) == agent.CodeNotFound {
		return false
	}
	require.NoError(w.t, err)
	return true
}

func turn(id string, input string) agent.TurnRecord {
	return agent.TurnRecord{
		TurnID: agent.TurnID(id), Tenant: tenant, SessionID: agent.SessionID("s-" + id), WorkflowID: "turn/" + id,
		Binding: agent.Binding{Agent: "analyst"}, OnBusy: agent.OnBusyQueue, History: agent.HistoryLoad,
		Input: []agent.Message{agent.UserText("question " + input)}, Context: agent.InvocationContext{Tenant: tenant},
	}
}

// beginReferring begins a turn whose tool has returned a reference.
func beginReferring(ctx context.Context, s *postgres.Store, id, ref string) error {
	if _, err := s.Begin(ctx, turn(id, "")); err != nil {
		return err
	}
	return s.SaveToolStep(ctx, agent.ToolStep{
		Key: agent.StepKey{TurnID: agent.TurnID(id), Step: 1, CallID: "c"}, Fence: agent.Fence{StreamID: id, Producer: "tool/1/c", Epoch: 1},
		Tenant: tenant, Name: "execute_pipeline", Result: agent.Block{Type: agent.BlockToolResult, ToolCallID: "c", Status: agent.ResultSuccess},
		Dataset: &agent.Dataset{Ref: ref, RowCount: 1},
	})
}

// endAndDelete ends a turn and deletes its session.
func endAndDelete(ctx context.Context, s *postgres.Store, id string) error {
	if _, err := s.Finish(ctx, finish(id)); err != nil {
		return err
	}
	_, err := s.DeleteSession(ctx, tenant, agent.SessionID("s-"+id))
	return err
}

func finish(id string) agent.FinishRecord {
	out := agent.AgentStepOutput{TurnID: agent.TurnID(id), Status: agent.TurnCompleted, Blocks: []agent.Block{}, ToolCalls: []agent.ToolCallNote{}}
	return agent.FinishRecord{
		TurnID: agent.TurnID(id), Tenant: tenant, SessionID: agent.SessionID("s-" + id), Output: out,
		Events: []agent.Event{{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: &out}},
	}
}
