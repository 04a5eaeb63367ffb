package pgdev

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// process is a child process with the end of its output.
type process struct {
	cmd    *exec.Cmd
	tail   *tail
	exited chan struct{} // closed when the child is gone and reaped
	err    error         // its exit, once exited is closed
}

// launch starts program as acct. The child gets deathSignal when this process dies.
//
// The kernel sends that signal when the *thread* that forked ends, so one goroutine locked to its thread starts the child and waits for it. The
// child has its own process group, so that Ctrl-C in the terminal does not stop the database before its clients.
//
// The end of ctx does not end the child.
func launch(
	ctx context.Context, acct account, deathSignal syscall.Signal, log *zap.Logger, program string, args ...string,
) (*process, error) {
	p := &process{
		cmd:    exec.CommandContext(context.WithoutCancel(ctx), program, args...),
		tail:   &tail{log: log},
		exited: make(chan struct{}),
	}
	p.cmd.Dir = "/"
	// A fixed environment, without locales, PG* variables and our secrets.
	p.cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}
	p.cmd.SysProcAttr = childAttributes(deathSignal)
	if acct.switched {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: acct.uid, Gid: acct.gid}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
	p.cmd.WaitDelay = quitGrace // a stray grandchild may hold our end of the pipe open

	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			err = p.cmd.Wait()
		}
		p.err = err
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := guard(p, deathSignal); err != nil {
		p.kill()
		<-p.exited
		return nil, fmt.Errorf("guard %s: %w", program, err)
	}
	return p, nil
}

// run starts a program that ends by itself and waits for it.
func run(ctx context.Context, acct account, log *zap.Logger, program string, args ...string) error {
	p, err := launch(ctx, acct, syscall.SIGKILL, log, program, args...)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
		<-p.exited
		return fmt.Errorf("%s: %w", program, ctx.Err())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", program, p.err, p.tail)
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the whole process group at once.
func (p *process) kill() {
	if p.alive() {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	}
}

// shutdown sends sig and waits for the end. When ctx ends first, it requests an immediate stop, then kills, and returns the error of ctx. The child
// has always ended when shutdown returns.
func (p *process) shutdown(ctx context.Context, sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && p.alive() {
		p.kill()
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	timer := time.NewTimer(quitGrace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill()
		<-p.exited
	}
	return fmt.Errorf("stop postgres: %w", ctx.Err())
}

// tail keeps the end of a child's output for error messages, and logs its fatal lines.
type tail struct {
	log *zap.Logger

	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write implements io.Writer; it never fails, so that a child never sees a broken pipe.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	for line := range bytes.Lines(p) {
		if bytes.Contains(line, []byte("FATAL:")) || bytes.Contains(line, []byte("PANIC:")) {
			t.log.Warn("postgres", zap.ByteString("line", bytes.TrimSpace(line)))
		}
	}
	return len(p), nil
}

// String returns the lines joined to one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(string(t.text)), "\n", " | ")
}
