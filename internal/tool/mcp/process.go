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
	// leftoverTimeout is how long pipes are read that other processes of the server's group still hold.
	leftoverTimeout = time.Second
	// maxLine is how many bytes of a line of a server's standard error are read. maxLogLine, in runes, and logRate, in lines a second,
	// bound what is logged.
	maxLine    = 16 << 10
	maxLogLine = 1 << 10
	logRate    = 10
	logBurst   = 100
)

// process is a running server and this side of its pipes. When it has ended, its whole process group is killed.
type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	exited chan struct{} // closed when it has ended
	quiet  chan struct{} // closed when its standard error has ended
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

	p := &process{cmd: cmd, exited: make(chan struct{}), quiet: make(chan struct{})}
	stderr, theirs, err := p.pipes()
	if err != nil {
		closeAll(theirs)
		return nil, agent.Errorf(agent.CodeUnavailable, "start MCP server", "%q: its pipes: %w", s.Name, err)
	}
	started := make(chan error)
	go p.run(started, theirs, stderr)
	if err := <-started; err != nil {
		closeAll([]*os.File{p.in, p.out, stderr})
		return nil, agent.Errorf(agent.CodeUnavailable, "start MCP server", "%q: %s", s.Name, startFault(err))
	}
	go p.log(stderr, t.logger.With(zap.String("server", s.Name), zap.Int("pid", cmd.Process.Pid)), t.secrets)
	return p, nil
}

// pipes connects the command's standard streams; theirs are the ends of the command.
func (p *process) pipes() (stderr *os.File, theirs []*os.File, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, []*os.File{stdin, in}, err
	}
	stderr, complaints, err := os.Pipe()
	if err != nil {
		return nil, []*os.File{stdin, in, out, stdout}, err
	}
	p.in, p.out = in, out
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, complaints
	return stderr, []*os.File{stdin, stdout, complaints}, nil
}

// run starts the command and waits for its end on one thread: for the kernel, the parent that dies is a thread (golang.org/issue/27505).
func (p *process) run(started chan<- error, theirs []*os.File, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	closeAll(theirs)
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended does not matter
	signalGroup(p.cmd.Process.Pid, syscall.SIGKILL)
	// What the group has still written is read. A process that left the group and kept a pipe is not waited for.
	for _, f := range []*os.File{p.out, stderr} {
		_ = f.SetReadDeadline(time.Now().Add(leftoverTimeout))
	}
	close(p.exited)
}

// stop asks the server to end, as the protocol says: its input is closed, then SIGTERM, then SIGKILL. It returns when it is gone.
func (p *process) stop() {
	closeAll([]*os.File{p.in, p.out})
	for _, signal := range []func(){
		func() {},
		func() { signalGroup(p.cmd.Process.Pid, syscall.SIGTERM) },
		func() { signalGroup(p.cmd.Process.Pid, syscall.SIGKILL) },
	} {
		signal()
		select {
		case <-p.exited:
			<-p.quiet
			return
		case <-time.After(stopTimeout):
		}
	}
}

// log copies the server's standard error to the log, line by line, within bounds of length and rate.
func (p *process) log(stderr *os.File, logger *zap.Logger, hidden *secrets) {
	defer close(p.quiet)
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
		switch text = hidden.displayText(text, maxLogLine); {
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
