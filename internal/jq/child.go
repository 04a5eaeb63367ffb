package jq

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// maxIdle is how long an idle child waits for the next program.
const maxIdle = time.Minute

// children are the idle children of this process.
//
//nolint:gochecknoglobals // all programs of the process share them
var children idleChildren

// idleChildren keeps the children that run no program.
type idleChildren struct {
	mu   sync.Mutex
	idle []*child // the most recently used one is the last
}

// child is a process that runs programs, with the parent's ends of its pipes.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	expiry *time.Timer
}

// take returns an idle child, or starts one.
func (i *idleChildren) take() (*child, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := len(i.idle); n > 0; n = len(i.idle) {
		c := i.idle[n-1]
		i.idle = i.idle[:n-1]
		if c.expiry.Stop() {
			return c, nil
		}
	}
	return startChild()
}

// put adds an idle child.
func (i *idleChildren) put(c *child) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c.expiry = time.AfterFunc(maxIdle, c.stop)
	i.idle = append(i.idle, c)
}

func startChild() (*child, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "start jq process", "%w", err)
	}
	if runtime.GOOS == "linux" {
		path = "/proc/self/exe" // it exists even if an update has replaced the file
	}
	c := &child{cmd: exec.Command(path)} //nolint:gosec,noctx // it is this program, and outlives the call
	// GOGC is high because the memory limit makes the collector run more often when memory is scarce.
	zone := os.Getenv("TZ") //nolint:forbidigo // not a setting of Turnstone: package time reads it
	c.cmd.Env = []string{childVariable + "=1", "GOMAXPROCS=2", "GOGC=400", "GOTRACEBACK=none", "TZ=" + zone}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "start jq process", "%w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "start jq process", "%w", err)
	}
	c.out = bufio.NewReaderSize(out, 1<<16)
	if err := c.cmd.Start(); err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "start jq process", "%w", err)
	}
	return c, nil
}

// stop kills the process.
func (c *child) stop() {
	_ = c.cmd.Process.Kill() // it may have ended already
	_ = c.cmd.Wait()         // its exit status is that of a killed process
}

// run runs one program on the document that writeDoc writes. Afterwards the child is idle or has ended.
func (c *child) run(ctx context.Context, r *request, writeDoc func(io.Writer) error) ([]json.RawMessage, error) {
	stopWatching := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	sent := make(chan error, 1)
	go func() { sent <- c.send(r, writeDoc) }()
	outputs, failure := c.receive(r)
	isAlive := failure == nil || !failure.Ends
	if isAlive && <-sent == nil && stopWatching() {
		children.put(c)
	} else {
		c.stop()
	}
	switch {
	case failure == nil:
		return outputs, nil
	case ctx.Err() != nil:
		return nil, agent.Interrupted(ctx, "run jq program")
	default:
		return nil, agent.FieldErrorf(failure.Code, field, "%s", failure.Message)
	}
}

// send sends the request and the document to the child.
func (c *child) send(r *request, writeDoc func(io.Writer) error) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(c.in, 1<<16)
	_, _ = w.Write(append(line, '\n')) // Flush returns the error
	if err := writeDoc(w); err != nil {
		return err
	}
	return w.Flush()
}

// receive reads the child's answer to a request: the program's outputs, or why it failed.
func (c *child) receive(r *request) ([]json.RawMessage, *fault) {
	outputs := []json.RawMessage{}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil { // the Go runtime or the operating system has ended the child
			return nil, &fault{Code: agent.CodeOverflow, Message: r.memoryExceeded().Err.Error(), Ends: true}
		}
		switch kind, text := line[0], line[1:len(line)-1]; kind {
		case lineOutput:
			outputs = append(outputs, text)
		case lineEnd:
			return outputs, nil
		default:
			f := &fault{}
			if err := json.Unmarshal(text, f); err != nil {
				f = &fault{Code: agent.CodeInternal, Message: "cannot read the answer of its process", Ends: true}
			}
			return nil, f
		}
	}
}
