package jq

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	// childVariable is the environment variable that makes a process of this executable run jq programs and nothing else.
	childVariable = "TURNSTONE_JQ_CHILD"
	// watchEvery is how often the child checks the time and memory that it has used.
	watchEvery = 5 * time.Millisecond
	// spareMemory is added to the memory limit for free memory that the Go runtime has not returned yet.
	spareMemory = 8 << 20
	// maxStack limits the recursion of gojq into nested values.
	maxStack = 256 << 20
)

// Kinds of lines of an answer, which are their first bytes.
const (
	lineOutput = '=' // an output
	lineFault  = '!' // the last line: the program failed
	lineEnd    = '.' // the last line: the program has ended
)

// request is the line that a parent sends before the document.
type request struct {
	Query   string
	ByRow   bool  // whether the document is an array whose values the program gets one by one
	Size    int64 // of the document, in bytes
	Time    time.Duration
	Memory  int64
	Outputs int
	Bytes   int64
}

// memoryExceeded returns the error of a program that uses too much memory, or whose recursion is too deep.
func (r *request) memoryExceeded() *agent.Error {
	return tooMuch("takes more than %d MiB of memory; begin the program with .[] | to have the rows one by one, or filter them first", r.Memory>>20)
}

// fault is an error that a child sends to its parent.
type fault struct {
	Code    agent.Code
	Message string
	Ends    bool // whether the child has ended
}

//nolint:gochecknoinits // programs that embed the runtime have their own main function, and must serve as children too
func init() {
	if os.Getenv(childVariable) == "" { //nolint:forbidigo // not a setting: startChild sets it
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // a draining worker still needs its children
	debug.SetMaxStack(maxStack)
	s := &server{
		in: bufio.NewReaderSize(os.Stdin, 1<<16), out: bufio.NewWriterSize(os.Stdout, 1<<16), base: footprint(), baseMapping: mappedBytes(),
	}
	for s.serve() == nil {
		debug.FreeOSMemory() // so that the next program begins with an empty heap
	}
	os.Exit(0) //nolint:forbidigo // the main function must not run in a child
}

// server runs the programs that a parent sends.
type server struct {
	in          *bufio.Reader
	base        int64      // bytes of memory that the process uses without a program
	baseMapping int64      // size of its address space without a program
	mu          sync.Mutex // guards out; not released any more when the process is about to end
	out         *bufio.Writer
}

// serve runs one program. It returns an error when the parent has closed the pipes.
func (s *server) serve() error {
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	r := &request{}
	if err := json.Unmarshal(line, r); err != nil {
		return err
	}
	stop := s.watch(r)
	doc := io.LimitReader(s.in, r.Size)
	x := &execution{request: r, server: s, remainingBytes: r.Bytes}
	failure := x.execute(doc)
	stop()
	if _, err := io.Copy(io.Discard, doc); err != nil {
		return err
	}
	if failure != nil {
		s.writeFault(fault{Code: failure.Code, Message: failure.Err.Error()})
	} else {
		s.writeLine(lineEnd, nil)
	}
	return s.out.Flush()
}

func (s *server) writeLine(kind byte, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(kind, text)
}

func (s *server) write(kind byte, text []byte) {
	_ = s.out.WriteByte(kind) // Flush returns the error
	_, _ = s.out.Write(text)
	_ = s.out.WriteByte('\n')
}

func (s *server) writeFault(f fault) {
	text, _ := json.Marshal(f) // none of its types can fail
	s.writeLine(lineFault, text)
}

// watch ends the process when the program uses more than the request allows, until stop is called.
func (s *server) watch(r *request) (stop func()) {
	debug.SetMemoryLimit(s.base + r.Memory)
	limitMapping(s.baseMapping, r.Memory)
	start, done := processorTime(), make(chan struct{})
	go func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			switch {
			case processorTime()-start > r.Time:
				s.end(done, tooMuch("takes longer than %s; filter the rows first, or do less with each", roundTime(r.Time)))
			case footprint()-s.base > r.Memory+spareMemory:
				s.end(done, r.memoryExceeded())
			}
		}
	}()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(done)
	}
}

// end sends an error and ends the process, unless the program is done.
func (s *server) end(done <-chan struct{}, reason *agent.Error) {
	s.mu.Lock()
	select {
	case <-done:
		s.mu.Unlock()
		return
	default:
	}
	text, _ := json.Marshal(fault{Code: reason.Code, Message: reason.Err.Error(), Ends: true})
	s.write(lineFault, text)
	_ = s.out.Flush()
	os.Exit(1) //nolint:forbidigo // a running instruction cannot be interrupted
}

// footprint returns the bytes of memory that the Go runtime has taken from the operating system and not returned.
func footprint() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - sample[1].Value.Uint64()) //nolint:gosec // no process is that large
}

// roundTime returns a duration with the precision for messages.
func roundTime(d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d.Round(100 * time.Millisecond)
}

// execution is one run of a program.
type execution struct {
	*request

	server         *server
	code           *gojq.Code
	outputs        int
	remainingBytes int64 // of outputs
}

// execute runs the program on a document.
func (x *execution) execute(doc io.Reader) *agent.Error {
	q, err := gojq.Parse(x.Query)
	if err == nil {
		if x.ByRow {
			q, _ = findRowQuery(q)
		}
		x.code, err = gojq.Compile(q)
	}
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "", "compile jq program: %w", err)
	}
	d := json.NewDecoder(doc)
	d.UseNumber()
	if x.ByRow {
		return x.runRows(d)
	}
	return x.runNext(d)
}

// runRows runs the program on each value of an array.
func (x *execution) runRows(d *json.Decoder) *agent.Error {
	if _, err := d.Token(); err != nil {
		return notJSON(err)
	}
	for row := 0; d.More(); row++ {
		if err := x.runNext(d); err != nil {
			if err.Code == agent.CodeInvalid && err.Field != "" {
				return invalid("row %d: %w", row, err.Err)
			}
			return err
		}
	}
	return nil
}

// runNext runs the program on the next value.
func (x *execution) runNext(d *json.Decoder) *agent.Error {
	var v any
	if err := d.Decode(&v); err != nil {
		return notJSON(err)
	}
	results := x.code.RunWithContext(context.Background(), v)
	for {
		v, ok := results.Next()
		if !ok {
			return nil
		}
		if err, isError := v.(error); isError {
			return programError(err)
		}
		if err := x.write(v); err != nil {
			return err
		}
	}
}

// write sends one output to the parent.
func (x *execution) write(v any) *agent.Error {
	if x.outputs++; x.outputs > x.Outputs {
		return tooMuch("has more than %d outputs", x.Outputs)
	}
	text, err := gojq.Marshal(v)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "", "run jq program: %w", err)
	}
	if x.remainingBytes -= int64(len(text)); x.remainingBytes < 0 {
		return tooMuch("the outputs are longer than %d bytes", x.Bytes)
	}
	if !hasValidNames(v) {
		return invalid("makes an object with a name that is not UTF-8")
	}
	x.server.writeLine(lineOutput, text)
	return nil
}

// hasValidNames reports whether the names of all members are UTF-8. Two invalid names could become the same name in JSON.
func hasValidNames(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !hasValidNames(e) })
	case map[string]any:
		for name, e := range v {
			if !utf8.ValidString(name) || !hasValidNames(e) {
				return false
			}
		}
	}
	return true
}

// programError returns the error of a program that failed. The message has the beginning of a value that the program threw.
func programError(err error) *agent.Error {
	message := err.Error()
	if thrown, ok := errors.AsType[gojq.ValueError](err); ok {
		if text, isText := thrown.Value().(string); isText {
			message = text
		} else if text, err := gojq.Marshal(thrown.Value()); err == nil {
			message = string(text)
		}
	}
	return invalid("failed: %s", clip.Bytes(strings.ToValidUTF8(message, "\ufffd"), maxQuoted))
}

func notJSON(err error) *agent.Error {
	return agent.Errorf(agent.CodeInvalid, "", "the input is not JSON: %s", clip.Bytes(err.Error(), maxQuoted))
}
