// Package child runs a program that ends when this process ends, even if this process is killed.
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

// quitGrace is the time between SIGQUIT and SIGKILL.
const quitGrace = 10 * time.Second

// Config is the configuration of a child process.
type Config struct {
	Program string
	Args    []string
	Dir     string   // working directory
	Env     []string // complete environment

	// DeathSignal is sent to the child when this process dies.
	DeathSignal syscall.Signal

	// Credential is the user that the child runs as. Nil is the user of this process.
	Credential *syscall.Credential

	// OnLine, if set, is called with each line of the child's output.
	OnLine func(line []byte)
}

// Process is a child process.
type Process struct {
	cmd    *exec.Cmd
	tail   *tail
	exited chan struct{} // closed when the child has ended
	err    error         // how the child ended; set before exited is closed
}

// Start starts a child.
//
// The kernel sends the death signal when the thread that started the child ends. So one goroutine, locked to its thread, starts the child and waits
// for it. The child has its own process group, so that Ctrl-C in the terminal does not stop it before its clients.
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
	p.cmd.WaitDelay = quitGrace // because a process that the child started may keep the pipe open

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

// Run starts a child and waits until it ends. When ctx ends, Run kills it.
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

// Output returns the last 4 KiB of the child's output on one line.
func (p *Process) Output() string { return p.tail.String() }

// Exit returns how the child ended, such as "exit status 1".
func (p *Process) Exit() string { return p.cmd.ProcessState.String() }

// Kill kills the process group of the child and waits until the child has ended.
func (p *Process) Kill() {
	if p.Alive() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
	<-p.exited
}

// Shutdown sends sig and waits until the child has ended. When ctx ends first, it sends SIGQUIT and then SIGKILL, and returns the error of ctx.
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

// tail keeps the last tailBytes of a child's output for error messages.
type tail struct {
	onLine func([]byte)

	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write implements [io.Writer]. It never fails.
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

// String returns the output with " | " in place of line ends.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(string(t.text)), "\n", " | ")
}
