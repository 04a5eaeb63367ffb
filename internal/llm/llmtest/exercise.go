// Package llmtest is the conformance suite of [agent.Model]. Every provider client passes [Exercise] against a server that speaks the provider's
// wire format, also when that server is slow, refuses, or breaks off. docs/adr/0002 rests on it.
package llmtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// caseTimeout bounds one case. Only an implementation that hangs reaches it.
const caseTimeout = 20 * time.Second

// Harness is one implementation under test.
type Harness struct {
	Dialect  Dialect // of its provider
	Open     func(cfg wire.Config) (agent.Model, error)
	Requests string // folder with the expected request bodies, <name>.json
	// Gaps are the cases that fail because of a library below the implementation, each with a part of the failure. Such a case has to fail in
	// this way: once the library is mended, the suite fails until the gap is removed.
	Gaps map[string]string
}

// testCase is one behaviour of the port.
type testCase struct {
	name string
	run  func(c *caseRun)
}

// Exercise runs the suite.
func Exercise(t *testing.T, h Harness) {
	cases := slices.Concat(replyCases(), requestCases(), errorCases(), controlCases(), replyBlockCases(h.Dialect), requestBlockCases(), prefixCases())
	names := make(map[string]bool, len(cases))
	for _, tc := range cases {
		names[tc.name] = true
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			gap, isGap := h.Gaps[tc.name]
			if problem := judge(runCase(h, tc.run), gap, isGap); problem != "" {
				t.Error(problem)
			}
		})
	}
	for name := range h.Gaps {
		if !names[name] {
			t.Errorf("the gap %q names no case", name)
		}
	}
}

// runCase runs a case without a [testing.T] and returns its failure, empty if it passed.
func runCase(h Harness, run func(c *caseRun)) string {
	c := &caseRun{h: h}
	defer c.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				c.Errorf("panic: %v", p)
			}
		}()
		run(c)
	}()
	select {
	case <-done:
	case <-time.After(caseTimeout):
		c.Errorf("hangs: no end after %s", caseTimeout)
	}
	return c.failure()
}

// judge returns what is wrong with the failure of a case, empty if nothing is. A gap has to fail with a text that contains gap.
func judge(failure, gap string, isGap bool) string {
	switch {
	case !isGap:
		return failure
	case failure == "":
		return fmt.Sprintf("the known gap %q is closed: remove it from the list and from docs/adr/0002", gap)
	case gap == "" || !strings.Contains(failure, gap):
		return fmt.Sprintf("the gap has another failure than the recorded %q:\n%s", gap, failure)
	default:
		return ""
	}
}

// failureRecorder collects the failures of one case. It is the require.TestingT of the case.
type failureRecorder struct {
	mu       sync.Mutex
	failures []string
}

// Errorf implements require.TestingT.
func (r *failureRecorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// FailNow implements require.TestingT. It ends the goroutine of the case.
func (r *failureRecorder) FailNow() { runtime.Goexit() }

func (r *failureRecorder) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.failures, "\n")
}
