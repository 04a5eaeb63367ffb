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
	// childVariable makes a process of this executable one that runs jq programs and nothing else.
	childVariable = "TURNSTONE_JQ_CHILD"
	// watchEvery is how often the child compares what it has used with what it may.
	watchEvery = 5 * time.Millisecond
	// spareMemory is added to the memory limit for free memory that the runtime of Go has not returned yet.
	spareMemory = 8 << 20
	// maxStack bounds the recursion of gojq into deep values.
	maxStack = 256 << 20
)

// The first byte of a line of an answer says what it is.
const (
	lineOutput = '='
	lineFault  = '!' // the last one: a fault
	lineEnd    = '.' // the last one: the program has ended
)

// request is the line that a parent sends before the document.
type request struct {
	Query   string
	ByRow   bool  // the document is an array, and the query has the form that takes its values one by one
	Size    int64 // of the document, in bytes
	Time    time.Duration
	Memory  int64
	Outputs int
	Bytes   int64
}

// memoryExceeded returns the error of a program that takes too much memory. A program whose recursion is too deep gets it too.
func (r *request) memoryExceeded() *agent.Error {
	return tooMuch("takes more than %d MiB of memory; begin the program with .[] | to have the rows one by one, or filter them first", r.Memory>>20)
}

// fault is an error as it passes between the processes.
type fault struct {
	Code    agent.Code
	Message string
	Ends    bool // the child ends with it
}

//nolint:gochecknoinits // programs that embed the runtime have a main of their own, and serve jq programs as well
func init() {
	if os.Getenv(childVariable) == "" { //nolint:forbidigo // it is no configuration: this package has set it
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // a worker that drains needs its children
	debug.SetMaxStack(maxStack)
	s := &server{
		in: bufio.NewReaderSize(os.Stdin, 1<<16), out: bufio.NewWriterSize(os.Stdout, 1<<16), base: footprint(), baseMapping: mappedBytes(),
	}
	for s.serve() == nil {
		debug.FreeOSMemory() // so that the next program begins with nothing
	}
	os.Exit(0) //nolint:forbidigo // the main function is not of this process
}

// server runs the programs that a parent sends.
type server struct {
	in          *bufio.Reader
	base        int64      // bytes of memory that the process has without a program
	baseMapping int64      // bytes of addresses, likewise
	mu          sync.Mutex // held while a line is written, and for good once the process is to end
	out         *bufio.Writer
}

// serve runs one program. The error is that of the parent's end.
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
	x := &execution{request: r, server: s, left: r.Bytes}
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
	_ = s.out.WriteByte(kind) // the writer keeps its error
	_, _ = s.out.Write(text)
	_ = s.out.WriteByte('\n')
}

func (s *server) writeFault(f fault) {
	text, _ := json.Marshal(f) // it has nothing that fails
	s.writeLine(lineFault, text)
}

// watch ends the process when the program uses more than the request allows, until stop is called.
func (s *server) watch(r *request) (stop func()) {
	debug.SetMemoryLimit(s.base + r.Memory)
	limitMapping(s.baseMapping, r.Memory)
	begun, done := processorTime(), make(chan struct{})
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
			case processorTime()-begun > r.Time:
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

// end reports why the program was stopped and ends the process, unless the program is done.
func (s *server) end(done <-chan struct{}, why *agent.Error) {
	s.mu.Lock()
	select {
	case <-done:
		s.mu.Unlock()
		return
	default:
	}
	text, _ := json.Marshal(fault{Code: why.Code, Message: why.Err.Error(), Ends: true})
	s.write(lineFault, text)
	_ = s.out.Flush()
	os.Exit(1) //nolint:forbidigo // nothing else ends an instruction that runs
}

// footprint returns the bytes of memory that the process has from the operating system.
func footprint() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - sample[1].Value.Uint64()) //nolint:gosec // no process is that large
}

// roundTime returns a time as messages show it.
func roundTime(d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d.Round(100 * time.Millisecond)
}

// execution is one run of a program.
type execution struct {
	*request

	server  *server
	code    *gojq.Code
	outputs int
	left    int64 // bytes of outputs
}

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
		if err, bad := v.(error); bad {
			return programError(err)
		}
		if err := x.write(v); err != nil {
			return err
		}
	}
}

func (x *execution) write(v any) *agent.Error {
	if x.outputs++; x.outputs > x.Outputs {
		return tooMuch("has more than %d outputs", x.Outputs)
	}
	text, err := gojq.Marshal(v)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "", "run jq program: %w", err)
	}
	if x.left -= int64(len(text)); x.left < 0 {
		return tooMuch("the outputs are longer than %d bytes", x.Bytes)
	}
	if !hasTextNames(v) {
		return invalid("makes an object with a name that is not UTF-8")
	}
	x.server.writeLine(lineOutput, text)
	return nil
}

// hasTextNames reports whether the names of all members are UTF-8. Two others could be written as the same name.
func hasTextNames(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !hasTextNames(e) })
	case map[string]any:
		for name, e := range v {
			if !utf8.ValidString(name) || !hasTextNames(e) {
				return false
			}
		}
	}
	return true
}

// programError returns the error of a program that failed. A value that it threw is in the message if it is short.
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
	return agent.Errorf(agent.CodeInvalid, "", "the input is no JSON: %s", clip.Bytes(err.Error(), maxQuoted))
}
