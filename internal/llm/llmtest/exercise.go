package llmtest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// patience bounds one case; it is reached only by an implementation that hangs.
const patience = 20 * time.Second

// Harness is one implementation under test.
type Harness struct {
	Dialect  Dialect // what its provider speaks
	Open     func(cfg wire.Config) (agent.Model, error)
	Requests string // folder of golden request bodies, one <name>.json per request case
	// Gaps are the cases that a library below the implementation is known to fail, each with a text that its failure contains. Such
	// a case must fail, and in that way: a library that mends it fails the suite until the gap is struck off.
	Gaps map[string]string
}

// testCase is one behaviour of the port.
type testCase struct {
	name string
	run  func(c *C)
}

// Exercise runs the suite.
func Exercise(t *testing.T, h Harness) {
	var cases []testCase
	for _, group := range [][]testCase{
		replyCases(), requestCases(), errorCases(), controlCases(), sayingCases(h.Dialect), takingCases(), prefixCases(),
	} {
		cases = append(cases, group...)
	}
	names := make(map[string]bool, len(cases))
	for _, tc := range cases {
		names[tc.name] = true
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			gap, known := h.Gaps[tc.name]
			if fault := verdict(attempt(h, tc).String(), gap, known); fault != "" {
				t.Error(fault)
			}
		})
	}
	for name := range h.Gaps {
		if !names[name] {
			t.Errorf("the gap %q names no case", name)
		}
	}
}

// attempt runs a case apart from the test, so that its failure can be judged.
func attempt(h Harness, tc testCase) *recorder {
	rec := &recorder{}
	c := &C{recorder: rec, h: h}
	defer c.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				rec.Errorf("panic: %v", p)
			}
		}()
		tc.run(c)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		rec.Errorf("hangs: no end after %s", patience)
	}
	return rec
}

// verdict returns what is wrong with the outcome of a case, "" for nothing: failure is what the case recorded, gap what a known gap
// makes it record.
func verdict(failure, gap string, known bool) string {
	switch {
	case !known:
		return failure
	case failure == "":
		return fmt.Sprintf("the known gap %q is closed: strike it off the list and off docs/adr/0002", gap)
	case gap == "" || !strings.Contains(failure, gap):
		return fmt.Sprintf("fails, but otherwise than recorded (%q):\n%s", gap, failure)
	default:
		return ""
	}
}

// recorder gathers the failures of one case; it is what require sees as the test.
type recorder struct {
	mu       sync.Mutex
	failures []string
}

// Errorf implements require.TestingT.
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// FailNow implements require.TestingT; the case runs in a goroutine of its own.
func (r *recorder) FailNow() { runtime.Goexit() }

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.failures, "\n")
}
