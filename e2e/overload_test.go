package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// burstSize is how many requests come at once.
const burstSize = 300

// effects is a toolkit whose only tool notes which turns have called it.
type effects struct {
	mu    sync.Mutex
	calls map[agent.TurnID]int
}

func (*effects) Name() string          { return "effects" }
func (e *effects) Tools() []agent.Tool { return []agent.Tool{e} }
func (*effects) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "note", Description: "Notes the call.", Parameters: json.RawMessage(`{"type":"object"}`), InherentlySafe: true}
}

func (e *effects) Call(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[inv.TurnID]++
	return agent.ToolResult{Output: json.RawMessage(`"noted"`)}, nil
}

// callCount returns how often a turn has called the tool.
func (e *effects) callCount(id agent.TurnID) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[id]
}

// notesThenAnswers asks for the tool, and answers when it has its result.
func notesThenAnswers(body string) turnstonetest.Reply {
	if strings.Contains(body, `"role":"tool"`) {
		return turnstonetest.Say("done")
	}
	return turnstonetest.Call("note", `{}`)
}

// burstReply is the answer to one request of a burst.
type burstReply struct {
	status int
	turn   agent.TurnID
	retry  string
	body   string
}

// TestBurst: of many requests at once each is refused at once and does nothing, or runs exactly once; and nothing is left running. No test runs beside
// it: it takes the machine for itself.
func TestBurst(t *testing.T) {
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) { notesThenAnswers(x.Body)(x) })
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		t.Run(string(mode), func(t *testing.T) {
			noted := &effects{calls: map[agent.TurnID]int{}}
			set := turnstonetest.Settings(t, provider.Use, func(c *app.Config) { c.Turn.BeginWithin = app.Default().Turn.BeginWithin })
			s := startService(t, turnstone.Config{Settings: set, Toolkits: []agent.Toolkit{noted}})
			replies := make([]burstReply, burstSize)
			var wg sync.WaitGroup
			for i := range replies {
				wg.Go(func() { replies[i] = s.post(t, mode) })
			}
			wg.Wait()
			var accepted []burstReply
			refused := 0
			for i := range replies {
				switch r := &replies[i]; r.status {
				case http.StatusOK, http.StatusAccepted:
					accepted = append(accepted, *r)
				case http.StatusServiceUnavailable, http.StatusTooManyRequests:
					require.NotEmpty(t, r.retry, "Retry-After")
					require.Contains(t, r.body, `"retryable":true`)
					refused++
				default:
					t.Fatalf("%d: %s", r.status, r.body)
				}
			}
			t.Logf("%s: of %d at once %d accepted, %d refused", mode, burstSize, len(accepted), refused)
			require.NotEmpty(t, accepted)
			for i := range accepted {
				out, _ := s.follow(t.Context(), accepted[i].turn)
				require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
			}
			noted.mu.Lock()
			defer noted.mu.Unlock()
			require.Len(t, noted.calls, len(accepted), "what is refused has no effect")
			for i := range accepted {
				require.Equal(t, 1, noted.calls[accepted[i].turn])
			}
			require.Zero(t, s.number("SELECT count(*) FROM turns WHERE state IN ('queued', 'running')"))
			require.Equal(t, len(accepted), s.number("SELECT count(*) FROM turns"))
		})
	}
}

// number asks the database for one.
func (s *system) number(sql string) (n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.set.Database.URL.Reveal())
	require.NoError(s.t, err)
	defer conn.Close(context.Background())
	require.NoError(s.t, conn.QueryRow(s.t.Context(), sql).Scan(&n))
	return n
}

// post posts a turn and waits for its answer, as a client that knows nothing of this server.
func (s *system) post(t *testing.T, mode agent.Mode) (r burstReply) {
	body := fmt.Sprintf(`{"message":"note it","mode":%q}`, mode)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+"/v1/turns", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Error(err)
		return r
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Error(err)
	}
	return burstReply{
		status: resp.StatusCode, turn: agent.TurnID(resp.Header.Get("Turnstone-Turn-Id")), retry: resp.Header.Get("Retry-After"),
		body: text.String(),
	}
}

// TestViewersAtOnce: however many open streams at the same time, all are served, and the database sees no more connections than are configured.
// No test runs beside it: it takes the machine for itself.
func TestViewersAtOnce(t *testing.T) {
	const turns = 10
	release := make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		if x.Await(release) {
			turnstonetest.Say("all is well")(x)
		}
	})
	s := start(t, provider.Use)
	var ids []agent.TurnID
	for range turns {
		receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello"})
		require.NoError(t, err)
		ids = append(ids, receipt.TurnID)
	}
	opened := make(chan int, burstSize)
	var wg sync.WaitGroup
	for i := range burstSize {
		wg.Go(func() { s.watchTurn(t, ids[i%turns], opened) })
	}
	for range burstSize {
		require.Equal(t, http.StatusOK, <-opened)
	}
	require.LessOrEqual(t, s.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'turnstone'"),
		s.set.Database.MaxConns+2, "and one that listens, for the log and the catalog")
	close(release)
	wg.Wait()
}

// watchTurn opens a turn's stream, says with what status, and reads to its end.
func (s *system) watchTurn(t *testing.T, id agent.TurnID, opened chan<- int) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/v1/turns/"+string(id)+"/events", http.NoBody)
	if err != nil {
		opened <- 0
		return
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Error(err)
		opened <- 0
		return
	}
	defer resp.Body.Close()
	opened <- resp.StatusCode
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"COMPLETED"`) {
			return
		}
	}
	t.Errorf("the stream of %s ended before its turn: %v", id, lines.Err())
}
