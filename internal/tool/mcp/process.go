package mcp

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// stopTimeout is how long a server may take to end: after its input was closed, and once more after SIGTERM.
	stopTimeout = 2 * time.Second
	// leftoverTimeout is how long the pipes are read after the server has ended, because other processes may still hold them.
	leftoverTimeout = time.Second

	// The bounds of what is logged of a server's standard error.
	maxLine    = 16 << 10 // bytes of a line that are read
	maxLogLine = 1 << 10  // runes of a line that are logged
	logRate    = 10       // lines a second
	logBurst   = 100
)

// process is a running server with this side of its pipes. When it has ended, its whole process group is killed.
type process struct {
	cmd       *exec.Cmd
	in        *os.File
	out       *os.File
	exited    chan struct{} // closed when the server has ended
	logsEnded chan struct{} // closed when its standard error has ended
}

// startProcess starts a server in its own process group. Errors are [agent.CodeUnavailable] and name neither path nor environment.
func startProcess(t *stdioTransport) (*process, error) {
	s := t.server
	cmd := exec.Command(s.Command, s.Args...) //nolint:gosec,noctx // the operator configured it, and it lives as long as its session
	cmd.Dir = s.Dir
	cmd.Env = slices.Clone(t.environ)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+s.Env[name])
	}
	cmd.SysProcAttr = childAttributes()

	p := &process{cmd: cmd, exited: make(chan struct{}), logsEnded: make(chan struct{})}
	stderr, serverEnds, err := p.pipes()
	if err != nil {
		closeAll(serverEnds)
		return nil, agent.Errorf(agent.CodeUnavailable, "start MCP server", "%q: its pipes: %w", s.Name, err)
	}
	started := make(chan error)
	go p.run(started, serverEnds, stderr)
	if err := <-started; err != nil {
		closeAll([]*os.File{p.in, p.out, stderr})
		return nil, agent.Errorf(agent.CodeUnavailable, "start MCP server", "%q: %s", s.Name, startFault(err))
	}
	go p.log(stderr, t.logger.With(zap.String("server", s.Name), zap.Int("pid", cmd.Process.Pid)), t.secrets)
	return p, nil
}

// pipes connects the command's standard streams. serverEnds are the ends of the server; after an error they are all that are open.
func (p *process) pipes() (stderr *os.File, serverEnds []*os.File, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, []*os.File{stdin, in}, err
	}
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		return nil, []*os.File{stdin, in, out, stdout}, err
	}
	p.in, p.out = in, out
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderrEnd
	return stderr, []*os.File{stdin, stdout, stderrEnd}, nil
}

// run starts the command and waits for its end. It keeps its thread, because the kernel kills the server when the thread that started it ends
// (golang.org/issue/27505).
func (p *process) run(started chan<- error, serverEnds []*os.File, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	closeAll(serverEnds)
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended does not matter
	signalGroup(p.cmd.Process.Pid, syscall.SIGKILL)
	// Read what the group has written, but do not wait for processes that have left the group and still hold a pipe.
	for _, f := range []*os.File{p.out, stderr} {
		_ = f.SetReadDeadline(time.Now().Add(leftoverTimeout))
	}
	close(p.exited)
}

// stop ends the server as the protocol says: it closes the server's input, then sends SIGTERM, then SIGKILL. It returns when the server has
// ended.
func (p *process) stop() {
	closeAll([]*os.File{p.in, p.out})
	if p.waitForExit() {
		return
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		signalGroup(p.cmd.Process.Pid, signal)
		if p.waitForExit() {
			return
		}
	}
}

// waitForExit waits until the server has ended, or for stopTimeout. It reports whether the server has ended.
func (p *process) waitForExit() bool {
	select {
	case <-p.exited:
		<-p.logsEnded
		return true
	case <-time.After(stopTimeout):
		return false
	}
}

// log copies the server's standard error to the log, line by line, within bounds of length and rate.
func (p *process) log(stderr *os.File, logger *zap.Logger, masker *secretMasker) {
	defer close(p.logsEnded)
	defer closeAll([]*os.File{stderr})
	lines := bufio.NewReaderSize(stderr, maxLine)
	budget := rate.NewLimiter(logRate, logBurst)
	dropped := 0
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			break
		}
		text := string(line)
		for more && err == nil {
			_, more, err = lines.ReadLine() // the rest of a long line
		}
		switch text = masker.displayText(text, maxLogLine); {
		case text == "":
		case budget.Allow():
			logger.Info("MCP server says", zap.String("stderr", text), zap.Int("dropped_before", dropped))
			dropped = 0
		default:
			dropped++
		}
	}
	if dropped > 0 {
		logger.Info("MCP server said more", zap.Int("dropped", dropped))
	}
}

// startFault returns why a command did not start, without its path.
func startFault(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "the command or its folder is not there"
	case errors.Is(err, os.ErrPermission):
		return "the command may not be run"
	default:
		return "the command does not start"
	}
}

func closeAll[C io.Closer](closers []C) {
	for _, c := range closers {
		_ = c.Close() // closed already, or nothing is lost
	}
}
