//go:build unix

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// readyTimeout is how long a worker process may take until its door says that a turn can run.
const readyTimeout = time.Minute

// bench is a place for worker processes that share a queue and a database, with a service of the test's own beside them that looks at
// the same database and has a queue of its own: the workers' turns are theirs alone.
type bench struct {
	*system
	env []string
}

func newBench(t testing.TB, change ...func(*app.Config)) *bench {
	t.Helper()
	set := turnstonetest.Settings(t, change...)
	b := &bench{env: environment(set)}
	if set.Worker.Enabled { // it does no work of the processes under test
		set.Temporal.TaskQueue += "-observer"
	}
	b.system = startWith(t, set)
	return b
}

// environment is a configuration as a worker process takes it.
func environment(c *app.Config) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TURNSTONE_LOG_LEVEL=warn", "TURNSTONE_LOG_FORMAT=console",
		"TURNSTONE_GRPC_ADDR=127.0.0.1:0",
		"TURNSTONE_TEMPORAL_ADDRESS=" + c.Temporal.Address, "TURNSTONE_TEMPORAL_NAMESPACE=" + c.Temporal.Namespace,
		"TURNSTONE_TEMPORAL_TASK_QUEUE=" + c.Temporal.TaskQueue,
		"TURNSTONE_DATABASE_URL=" + c.Database.URL.Reveal(), "TURNSTONE_STORAGE_BLOB_URL=" + c.Storage.BlobURL.Reveal(),
		"TURNSTONE_LLM_PROVIDER=" + c.LLM.Provider, "TURNSTONE_LLM_MODEL=" + c.LLM.Model, "TURNSTONE_LLM_BASE_URL=" + c.LLM.BaseURL,
		"TURNSTONE_LLM_API_KEY=" + c.LLM.APIKey.Reveal(), "TURNSTONE_TURN_PROVIDER_WAIT=" + c.Turn.ProviderWait.String(),
	}
}

// process is a program that a test started; door and addr are the HTTP door of a worker.
type process struct {
	t      testing.TB
	addr   string
	cmd    *exec.Cmd
	exited chan struct{}
	door   *client.Client
}

// spawn starts a worker whose door is at an address, with more variables, and waits until a turn can run. It is killed when the test ends, if it still
// lives; what it wrote is shown if the test failed.
func (b *bench) spawn(binary, addr string, env []string, args ...string) *process {
	b.t.Helper()
	p := b.launch(binary, addr, env, args...)
	p.awaitReady()
	return p
}

// launch is spawn without the waiting.
func (b *bench) launch(binary, addr string, env []string, args ...string) *process {
	b.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = b.t.TempDir()
	cmd.Env = slices.Concat(b.env, env, []string{"TURNSTONE_HTTP_ADDR=" + addr})
	p := startProcess(b.t, "worker at "+addr, cmd)
	p.addr = addr
	var err error
	p.door, err = client.New(client.Config{Server: "http://" + addr})
	require.NoError(b.t, err)
	return p
}

// startProcess starts a program that ends with the test, if not before. What it printed is shown if the test failed.
func startProcess(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, exited: make(chan struct{})}
	var written strings.Builder
	cmd.Stdout, cmd.Stderr = &written, &written
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the test does not reach the program
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // it is killed more often than not
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, written.String())
		}
	})
	return p
}

// awaitReady waits until a turn can run.
func (p *process) awaitReady() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		select {
		case <-p.exited:
			return true
		default:
		}
		resp, err := http.Get("http://" + p.addr + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, readyTimeout, 50*time.Millisecond, "a worker that is ready")
	select {
	case <-p.exited:
		require.Fail(p.t, "the worker ended before it was ready")
	default:
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// end sends a last signal and waits until the process is gone.
func (p *process) end(s os.Signal) {
	_ = p.cmd.Process.Signal(s) // it may be gone already
	<-p.exited
}

// freeAddr is an address that nobody listens on and nobody is given, since its port lies below those that systems choose from. A worker
// started again gets the same one, so that its viewers find it.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+(7*os.Getpid()+int(workerPort.Add(1)))%10_000)
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	require.Fail(t, "no port is free")
	return ""
}

// workerPort counts the ports that freeAddr gave away.
var workerPort atomic.Int64

// TestWorkerProcess does to worker processes what happens to them in production.
func TestWorkerProcess(t *testing.T) {
	t.Parallel()
	binary := build(t, "../worker")
	for suffix, env := range map[string][]string{"": nil, "_local": localCalls()} {
		t.Run("killed"+suffix, func(t *testing.T) { t.Parallel(); testKilledWorker(t, binary, env, suffix) })
		t.Run("drained"+suffix, func(t *testing.T) { t.Parallel(); testDrainedWorker(t, binary, env, suffix) })
		t.Run("frozen"+suffix, func(t *testing.T) { t.Parallel(); testFrozenWorker(t, binary, env, suffix) })
	}
	t.Run("apart", func(t *testing.T) { t.Parallel(); testGatewayAndWorkerApart(t, binary) })
}

// localCalls is the environment of a worker whose model calls are local activities.
func localCalls() []string { return []string{"TURNSTONE_TEMPORAL_MODEL_CALLS=local"} }

// testKilledWorker: a worker is killed in mid-stream and started again. A viewer who stays sees the reset and the text once.
func testKilledWorker(t *testing.T, binary string, env []string, suffix string) {
	b, addr := newBench(t), freeAddr(t)
	first := b.spawn(binary, addr, env)
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "say 200 words slowly", SessionID: "killed"})
	require.NoError(t, err)
	viewer := live(t, first.door, receipt.TurnID)
	b.awaitText(receipt.TurnID, "word5")
	first.end(syscall.SIGKILL)
	b.spawn(binary, addr, env)
	out, events := b.sound("retried_model_call"+suffix, receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, strings.Fields(out.Output), 200)
	require.Equal(t, 1, modelResets(events))
	require.Equal(t, kept(events), kept(viewer()), "who stayed saw what there is to see")
}

// modelResets counts how often a model call began again. Where it runs in the turn's first workflow task, BeginTurn runs again too.
func modelResets(events []agent.Event) (n int) {
	for i := range events {
		if events[i].Type == agent.EventReset && events[i].Producer != "turn" {
			n++
		}
	}
	return n
}

// testGatewayAndWorkerApart: a gateway without a worker accepts a turn while nobody polls and says so. It streams the turn while one worker
// without a door begins it, is killed, and another one ends it.
func testGatewayAndWorkerApart(t *testing.T, binary string) {
	b := newBench(t)
	gateway := b.launch(binary, freeAddr(t), []string{"TURNSTONE_WORKER_ENABLED=false"})
	polled := func(state, detail string) {
		t.Helper()
		require.Eventually(t, func() bool {
			h, err := gateway.door.Health(t.Context())
			return err == nil && slices.ContainsFunc(h.Dependencies, func(d client.Dependency) bool {
				return d.Name == "worker" && d.State == state && strings.Contains(d.Detail, detail)
			})
		}, readyTimeout, 50*time.Millisecond, "worker: %s, %s", state, detail)
	}
	polled("down", "nobody polls")
	receipt, err := gateway.door.Start(t.Context(), agent.TurnRequest{Message: "say 200 words slowly", SessionID: "apart", Mode: agent.ModeDirect})
	require.NoError(t, err)
	viewer := live(t, gateway.door, receipt.TurnID)

	alone := []string{"TURNSTONE_GATEWAY_ENABLED=false"}
	first := b.launch(binary, freeAddr(t), alone)
	b.awaitText(receipt.TurnID, "word5")
	polled("ok", "polling")
	_, err = net.Dial("tcp", first.addr)
	require.Error(t, err, "a worker alone has no door")
	first.end(syscall.SIGKILL)
	b.launch(binary, freeAddr(t), alone)
	out, events := b.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, strings.Fields(out.Output), 200)
	require.Equal(t, 1, count(events, agent.EventReset))
	require.Equal(t, kept(events), kept(viewer()), "who stayed at the gateway saw what there is to see") // and some that was void and never stored
}

// testDrainedWorker: a worker told to stop gives up a call that takes too long; another one takes the turn over.
func testDrainedWorker(t *testing.T, binary string, env []string, suffix string) {
	const answer = "said by the second worker"
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) { x.Begin("said by the first"); x.Hold() }, turnstonetest.Say(answer))
	b := newBench(t, provider.Use)
	first := b.spawn(binary, freeAddr(t), append([]string{"TURNSTONE_SHUTDOWN_TIMEOUT=6s"}, env...))
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "drained"})
	require.NoError(t, err)
	b.awaitText(receipt.TurnID, "first")
	b.spawn(binary, freeAddr(t), env)
	asked := time.Now()
	first.end(syscall.SIGTERM)
	require.Less(t, time.Since(asked), 10*time.Second, "it stops in time")
	require.True(t, first.cmd.ProcessState.Success(), "%s", first.cmd.ProcessState)
	out, events := b.sound("drained_worker"+suffix, receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, answer, out.Output)
	require.Equal(t, 1, modelResets(events))
}

// testFrozenWorker: a worker is cut off for so long that another one takes its turn over and ends it. When it comes back it still has
// text to write: none of it is seen, and it stops asking the model.
func testFrozenWorker(t *testing.T, binary string, env []string, suffix string) {
	const answer = "said by the one who took over"
	replaced, spoken, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	provider := turnstonetest.NewModel(t,
		func(x *turnstonetest.Exchange) {
			x.Begin("said by the zombie")
			if x.Await(replaced) {
				x.Begin(" words of the dead")
				close(spoken)
				x.Hold()
			}
			close(gone)
		},
		turnstonetest.Say(answer))
	b := newBench(t, provider.Use)
	toTemporal := newLine(t, b.set.Temporal.Address)
	zombie := b.spawn(binary, freeAddr(t), append([]string{"TURNSTONE_TEMPORAL_ADDRESS=" + toTemporal.Addr().String()}, env...))
	receipt, err := zombie.door.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "frozen"})
	require.NoError(t, err)
	b.awaitText(receipt.TurnID, "zombie")
	zombie.signal(syscall.SIGSTOP)
	toTemporal.cut() // for good: when it comes back, Temporal cannot tell it that its attempt is over; only the log can
	b.spawn(binary, freeAddr(t), env)
	out, before := b.sound("frozen_worker"+suffix, receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, answer, out.Output)
	require.Equal(t, 1, modelResets(before))

	close(replaced)
	await(t, spoken, "the model has more for the zombie")
	zombie.signal(syscall.SIGCONT)
	await(t, gone, "the zombie leaves its model")
	zombie.end(syscall.SIGTERM) // whatever it had to say is said
	_, after := b.follow(t.Context(), receipt.TurnID)
	require.Equal(t, before, after)
	b.storedOnce(out, before)
}

// line is a connection to a server that can be cut.
type line struct {
	net.Listener

	mu    sync.Mutex
	ends  []net.Conn
	isCut bool
}

func newLine(t *testing.T, server string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{Listener: listener}
	t.Cleanup(l.cut)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // cut
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close() // as the server would
				continue
			}
			l.join(near, far)
		}
	}()
	return l
}

// join passes on what both ends say, until the cut.
func (l *line) join(near, far net.Conn) {
	l.mu.Lock()
	l.ends = append(l.ends, near, far)
	isCut := l.isCut
	l.mu.Unlock()
	if isCut {
		l.cut()
		return
	}
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // ends when either end does
			_, _ = way[0].Close(), way[1].Close()
		}()
	}
}

func (l *line) cut() {
	_ = l.Close() // may be cut already, as may all below
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, c := range l.ends {
		_ = c.Close()
	}
}

// TestEffectIsNotRepeated: a tool has taken effect and its worker dies before it answers. The next worker does not call it again; the
// model is told that nobody knows.
func TestEffectIsNotRepeated(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	taken, over := make(chan struct{}), make(chan struct{})
	world := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if effects.Add(1) == 1 {
			close(taken)
		}
		<-over
	}))
	defer world.Close()
	defer close(over)
	const answer = "I do not know whether it is booked"
	provider := turnstonetest.NewModel(t, turnstonetest.Call("book", `{"flight":"TS 1"}`), turnstonetest.Say(answer))
	b := newBench(t, provider.Use)
	binary := build(t, "faults_effect_worker.go")
	first := b.spawn(binary, freeAddr(t), nil, world.URL)
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "book it", SessionID: "effect"})
	require.NoError(t, err)
	await(t, taken, "the tool is called")
	b.awaitEvent(receipt.TurnID, agent.EventToolStart)
	first.end(syscall.SIGKILL)
	b.spawn(binary, freeAddr(t), nil, world.URL)
	out, events := b.sound("unknown_outcome", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, answer, out.Output)
	require.EqualValues(t, 1, effects.Load(), "the effect happened once")
	require.Len(t, out.ToolCalls, 1)
	require.Equal(t, agent.ResultError, out.ToolCalls[0].Status)
	var voided []string // the producers that the dead worker may have shown
	for i := range events {
		if events[i].Type == agent.EventReset {
			voided = append(voided, events[i].Producer)
		}
	}
	require.Equal(t, []string{"tool/1/call_1", "model/2"}, voided, "the log cannot know how far the dead worker came")
	asked := provider.Requests()
	require.Contains(t, asked[1].Body, "outcome_unknown", "the model is told")
	require.NotContains(t, asked[0].Body, "outcome_unknown")
}
