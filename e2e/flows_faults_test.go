//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// heldSink takes mail and keeps its answer back until the test ends: it has the mail, and nobody is told.
type heldSink struct {
	addr string
	held chan struct{} // closed when the first mail is there
	over chan struct{}

	mu    sync.Mutex
	mails []string
}

func startHeldSink(t *testing.T) *heldSink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &heldSink{addr: l.Addr().String(), held: make(chan struct{}), over: make(chan struct{})}
	server := smtp.NewServer(h)
	server.Domain = "sink"
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		close(h.over)
		_ = server.Close()
		<-done
	})
	return h
}

// NewSession implements [smtp.Backend].
func (h *heldSink) NewSession(*smtp.Conn) (smtp.Session, error) { return &heldSession{sink: h}, nil }

type heldSession struct {
	sinkSession

	sink *heldSink
}

func (s *heldSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.sink.mu.Lock()
	s.sink.mails = append(s.sink.mails, string(raw))
	if len(s.sink.mails) == 1 {
		close(s.sink.held)
	}
	s.sink.mu.Unlock()
	<-s.sink.over
	return nil
}

func (h *heldSink) taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.mails...)
}

// mailVariables make a mail server, and whom webhooks may reach, known to a worker process.
func mailVariables(smtpAddr string, hook *httptest.Server) []string {
	return []string{
		"TURNSTONE_WORKFLOWS_SMTP_ADDR=" + smtpAddr, "TURNSTONE_WORKFLOWS_SMTP_FROM=runs@example.com", "TURNSTONE_WORKFLOWS_SMTP_TO=ops@example.com",
		"TURNSTONE_WORKFLOWS_SMTP_TLS=none", "TURNSTONE_EGRESS_ALLOW_PRIVATE=" + hook.Listener.Addr().String(),
		"TURNSTONE_WORKFLOWS_RECONCILE_EVERY=10s",
	}
}

// notified is a definition that posts to a hook, pauses, and sends a mail.
func notified(hook *httptest.Server, schedules string) json.RawMessage {
	return json.RawMessage(`{"nodes":[{"id":"hook","type":"task","config":{"action":"webhook","url":"` + hook.URL + `/began"}},` +
		`{"id":"pause","type":"timer","config":{"duration":"1s"}},` +
		`{"id":"notify","type":"task","config":{"action":"email","subject":"Done"}}],` +
		`"edges":[{"from":"hook","to":"pause"},{"from":"pause","to":"notify"}],"schedules":` + schedules + `}`)
}

// TestRunsSurviveTheirWorkers kills the worker of a run at several places, and another one goes on with it.
func TestRunsSurviveTheirWorkers(t *testing.T) {
	t.Parallel()
	binary := build(t, "../worker")
	t.Run("between effect and answer", func(t *testing.T) { t.Parallel(); testKilledInMail(t, binary) })
	t.Run("between nodes", func(t *testing.T) { t.Parallel(); testKilledBetweenNodes(t, binary) })
	t.Run("schedule", func(t *testing.T) { t.Parallel(); testScheduleOutlivesWorker(t, binary) })
}

// began counts the posts of a hook.
func startHook(t *testing.T) (hook *httptest.Server, began *atomic.Int64) {
	t.Helper()
	began = new(atomic.Int64)
	hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Idempotency-Key") != "" {
			began.Add(1)
		}
		fmt.Fprint(w, `{"ok":true}`)
	}))
	t.Cleanup(hook.Close)
	return hook, began
}

func (p *process) put(definition json.RawMessage) {
	p.t.Helper()
	_, err := p.door.PutWorkflow(p.t.Context(), client.WorkflowPut{WorkflowKey: annsMain, Definition: definition, By: "ann"})
	require.NoError(p.t, err)
}

// testKilledInMail: the mail server has the mail, and the worker dies before it is told so. The mail is not sent again.
func testKilledInMail(t *testing.T, binary string) {
	sink := startHeldSink(t)
	hook, began := startHook(t)
	b := newBench(t)
	first := b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	first.put(notified(hook, "[]"))
	receipt, err := first.door.StartRun(t.Context(), agent.RunRequest{Owner: "ann", Tag: "main"}, "")
	require.NoError(t, err)
	await(t, sink.held, "the mail server has the mail")
	b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	first.end(syscall.SIGKILL)
	run := b.ran(b.client, receipt)
	require.Equal(t, agent.RunFailed, run.Status)
	require.NotNil(t, run.Error)
	require.Equal(t, agent.OutcomeUnknown, run.Error.Type, "%+v", run.Error)
	require.Equal(t, []string{"hook completed", "pause completed", "notify failed"}, visited(&run))
	require.Equal(t, agent.OutcomeUnknown, run.Steps[2].Error.Type)
	require.Len(t, sink.taken(), 1, "one mail")
	require.EqualValues(t, 1, began.Load())
}

// testKilledBetweenNodes: the worker dies while the run waits in a timer. Another one does what is left, and nothing twice.
func testKilledBetweenNodes(t *testing.T, binary string) {
	sink := startSMTPSink(t)
	hook, began := startHook(t)
	b := newBench(t)
	first := b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	first.put(json.RawMessage(strings.Replace(string(notified(hook, "[]")), `"1s"`, `"3s"`, 1)))
	receipt, err := first.door.StartRun(t.Context(), agent.RunRequest{Owner: "ann", Tag: "main"}, "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		run, err := b.client.Run(t.Context(), receipt.RunID)
		return err == nil && len(run.Steps) > 0 && run.Steps[0].Status == agent.RunCompleted
	}, 30*time.Second, 20*time.Millisecond)
	first.end(syscall.SIGKILL)
	require.Empty(t, sink.taken())
	b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	run := b.ran(b.client, receipt)
	require.Equal(t, agent.RunCompleted, run.Status, "%+v", run.Error)
	require.Equal(t, []string{"hook completed", "pause completed", "notify completed"}, visited(&run))
	require.Len(t, sink.taken(), 1)
	require.EqualValues(t, 1, began.Load())
}

// testScheduleOutlivesWorker: a schedule fires while no worker lives, and the next one runs what it started, once.
func testScheduleOutlivesWorker(t *testing.T, binary string) {
	sink := startSMTPSink(t)
	hook, began := startHook(t)
	b := newBench(t)
	first := b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	first.put(notified(hook, `[{"id":"daily","cron":"0 9 * * *"}]`))
	handle := b.Temporal().ScheduleClient().GetHandle(t.Context(), "schedule/default/ann/main/daily")
	require.Eventually(t, func() bool { // where Temporal is too busy to resume it at once, the next reconciliation does
		found, err := handle.Describe(t.Context())
		return err == nil && !found.Schedule.State.Paused
	}, 3*time.Minute, 50*time.Millisecond)
	first.end(syscall.SIGKILL)
	require.NoError(t, handle.Trigger(t.Context(), sdkclient.ScheduleTriggerOptions{}))
	b.spawn(binary, freeAddr(t), mailVariables(sink.addr, hook))
	var runs agent.RunPage
	require.Eventually(t, func() bool {
		var err error
		runs, err = b.client.Runs(t.Context(), agent.RunQuery{Status: agent.RunCompleted})
		return err == nil && len(runs.Runs) == 1
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, "daily", runs.Runs[0].Schedule)
	require.Len(t, sink.taken(), 1)
	require.EqualValues(t, 1, began.Load())
	found, err := handle.Describe(t.Context())
	require.NoError(t, err, "a worker that starts keeps it")
	require.Empty(t, found.Info.RunningWorkflows)
	require.NoError(t, handle.Delete(t.Context()))
}
