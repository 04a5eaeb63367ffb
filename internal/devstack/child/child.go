// Package child runs a program that ends when this process does, however this process ends.
package child

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
)

// quitGrace is the time between asking firmly and killing.
const quitGrace = 10 * time.Second

// Config is a program with the way it runs.
type Config struct {
	Program string
	Args    []string
	Dir     string   // its working directory
	Env     []string // all of its environment

	// DeathSignal is sent to the child when this process dies.
	DeathSignal syscall.Signal

	// Credential is the user that the child runs as. Nil: this process's.
	Credential *syscall.Credential

	// OnLine is called with each piece of the child's output. Nil: only its end is kept, for error texts.
	OnLine func(line []byte)
}

// Process is a child process with the end of its output.
type Process struct {
	cmd    *exec.Cmd
	tail   *tail
	exited chan struct{} // closed when the child is gone and reaped
	err    error         // its exit, once exited is closed
}

// Start starts a child.
//
// The kernel sends the death signal when the *thread* that forked ends, so one goroutine locked to its thread starts the child and waits for it. The
// child has its own process group, so that Ctrl-C in the terminal does not stop it before its clients.
//
// The end of ctx does not end the child.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	p := &Process{
		cmd:    exec.CommandContext(context.WithoutCancel(ctx), cfg.Program, cfg.Args...),
		tail:   &tail{onLine: cfg.OnLine},
		exited: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env = cfg.Dir, cfg.Env
	p.cmd.SysProcAttr = attributes(cfg.DeathSignal)
	p.cmd.SysProcAttr.Credential = cfg.Credential
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
		return nil, fmt.Errorf("start %s: %w", cfg.Program, err)
	}
	if err := guard(p, cfg.DeathSignal); err != nil {
		p.Kill()
		return nil, fmt.Errorf("guard %s: %w", cfg.Program, err)
	}
	return p, nil
}

// Run starts a child and waits until it ends. It is killed when ctx ends.
func Run(ctx context.Context, cfg Config) error {
	p, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s: %w", cfg.Program, ctx.Err())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", cfg.Program, p.err, p.tail)
	}
	return nil
}

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive reports whether the child has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Output returns the last 4 KiB of what the child wrote, in one line.
func (p *Process) Output() string { return p.tail.String() }

// Exit returns how a child that has ended did so, such as "exit status 1".
func (p *Process) Exit() string { return p.cmd.ProcessState.String() }

// Kill ends the whole process group at once, and waits for the child's end.
func (p *Process) Kill() {
	if p.Alive() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
	<-p.exited
}

// Shutdown sends sig and waits for the end. When ctx ends first, it asks firmly (SIGQUIT), then kills, and returns the error of ctx. The child
// has always ended when Shutdown returns.
func (p *Process) Shutdown(ctx context.Context, sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && p.Alive() {
		p.Kill()
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
		p.Kill()
	}
	return fmt.Errorf("stop %s: %w", p.cmd.Path, ctx.Err())
}

// tail keeps the end of a child's output for error messages.
type tail struct {
	onLine func([]byte)

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
	if t.onLine != nil {
		for line := range bytes.Lines(p) {
			t.onLine(bytes.TrimSpace(line))
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
