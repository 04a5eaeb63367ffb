package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// childPrefix begins the reference of a tool_start that is a child turn: its workflow's id.
const childPrefix = "turn/"

// flightsPlace stands in a scenario for the address of the sample API, without a slash at the end.
const flightsPlace = "{flights}"

// TestScenarios runs the corpus of testdata/scenarios through both drivers and compares what comes of it. All run on one service, each
// in a tenant of its own. No other test runs beside it: some programs of scenarios run to their bound of seconds, or of the memory of the process.
func TestScenarios(t *testing.T) {
	all, err := loadScenarios(os.DirFS("../testdata/scenarios"), flightsPlace, turnstonetest.FlightsURL(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 250)
	s := startStage(t)
	for i := range all {
		sc := &all[i]
		t.Run(sc.File+"/"+sc.Name, func(t *testing.T) {
			t.Parallel()
			s.in(t).scenario(sc)
		})
	}
}

// TestScenarioFilesAreStrict: a scenario that says something that nobody reads is refused.
func TestScenarioFilesAreStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, message string }{
		"unknown field":  {"- {name: a, about: b, modell: []}", "0.modell: unknown field"},
		"unknown expect": {"- {name: a, about: b, expect: {outputs: x}}", "0.expect.outputs: unknown field"},
		"unknown reply":  {"- {name: a, about: b, model: [{txt: x}]}", "txt: unknown field"},
		"no name":        {"- {about: b}", "name: want 1 to 128"},
		"no reason":      {"- {name: a}", "about: say what"},
		"a name twice":   {"- {name: a, about: b}\n- {name: a, about: b}", `scenario "a" is in`},
		"empty":          {"[]", "want a list of scenarios"},
		"say twice":      {"- {name: a, about: b, say: x, request: {message: y}}", "say: give say or request"},
		"act without on": {"- {name: a, about: b, act: [{cancel: {}}]}", "act[0]: want on"},
		"two actions":    {"- {name: a, about: b, act: [{on: token, cancel: {}, message: {}}]}", "act[0]: want on"},
		"no driver":      {"- {name: a, about: b, only: both}", "only: want durable or direct"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadScenarios(fstest.MapFS{"bad.yaml": {Data: []byte(c.text)}})
			require.ErrorContains(t, err, "bad.yaml")
			require.ErrorContains(t, err, c.message)
		})
	}
}

// stage is the service that the scenarios run on.
type stage struct {
	*system

	t    *testing.T
	desk *desk
}

func startStage(t *testing.T) *stage {
	t.Helper()
	kit := newDesk()
	set := turnstonetest.Settings(t)
	said := &logged{}
	t.Cleanup(func() { // after the service has stopped
		requireUnsaid(t, said)
		requireUnstored(t, set)
	})
	s := &stage{t: t, desk: kit, system: startService(t, turnstone.Config{
		Settings: set, Logger: said.beside(turnstonetest.Logger(t)), Toolkits: []agent.Toolkit{kit}, Env: []string{keyVariable + "=" + scenarioKey},
		Middleware: []turnstone.Middleware{jumperMiddleware(), hooksMiddleware()},
	})}
	s.apply(fmt.Sprintf("kind: AuthProfile\ntenant: '*'\nname: %s\ntype: bearer\nsecret: env:%s\nhosts: [127.0.0.1]\n", keyProfile, keyVariable))
	return s
}

// in is the stage with another test's eyes.
func (s *stage) in(t *testing.T) *stage {
	return &stage{system: &system{Stack: s.Stack, t: t, set: s.set, client: s.client}, t: t, desk: s.desk}
}

// scenario runs one scenario with both drivers at the same time and holds them against each other.
func (s *stage) scenario(sc *scenario) {
	t := s.t
	t.Helper()
	modes := []agent.Mode{agent.ModeDurable, agent.ModeDirect}
	if sc.Only != "" {
		modes = []agent.Mode{sc.Only}
	}
	runs, faults := make([]*run, len(modes)), make([]error, len(modes))
	var wg sync.WaitGroup
	for i, mode := range modes {
		wg.Go(func() { runs[i], faults[i] = s.play(t.Context(), sc, mode) })
	}
	wg.Wait()
	defer func() {
		for _, r := range runs {
			r.provider.close()
		}
	}()
	results := make([][]checked, len(modes))
	for i, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			require.NoError(t, faults[i], "%s", runs[i])
			results[i] = s.in(t).check(runs[i], sc)
			s.in(t).record(runs[i], sc)
		})
	}
	if len(modes) == 2 && !t.Failed() {
		require.Equal(t, results[0], results[1], "both drivers come to the same")
	}
}

// record puts the histories of a run into the replay corpus, where one is being recorded.
func (s *stage) record(r *run, sc *scenario) {
	last := r.turns[len(r.turns)-1]
	name := sc.Record.Durable
	if r.mode == agent.ModeDirect {
		name = sc.Record.Direct
	}
	if name != "" {
		s.replay(name, last.receipt.TurnID.WorkflowID(), "")
	}
	if sc.Record.Child != "" && r.mode == agent.ModeDurable {
		children := childrenOf(last.stream.all())
		require.NotEmpty(s.t, children)
		s.replay(sc.Record.Child, children[0].WorkflowID(), "")
	}
}

// checkRun checks who drove a turn. A durable one has a workflow that returns what the stream ended with; a direct one has it when it had
// to wait for somebody, and else none. What is there replays.
func (s *stage) checkRun(r *run, p *played, out *agent.AgentStepOutput, want *expectation) {
	t := s.t
	t.Helper()
	events := p.stream.all()
	id := p.receipt.TurnID
	if r.mode == agent.ModeDirect && !p.queued {
		require.Equal(t, waits(events), s.exists(id), "a direct turn becomes durable when it waits, and only then")
	}
	if !s.exists(id) {
		require.Empty(t, want.Children)
		require.Equal(t, agent.ModeDirect, r.mode, "turn %s has no workflow", id)
		return
	}
	require.JSONEq(t, encode(t, out), encode(t, s.closed(id)), "the workflow returns what the stream ended with")
	s.replay("", id.WorkflowID(), "")
	children := []agent.TurnStatus{}
	for _, child := range childrenOf(events) {
		children = append(children, s.closed(child).Status)
		s.replay("", child.WorkflowID(), "")
	}
	if want.Children != nil {
		require.ElementsMatch(t, want.Children, children, "how the child turns ended")
	}
}

// waits reports whether a turn waited for a person or for another turn.
func waits(events []agent.Event) bool {
	for i := range events {
		if events[i].Status == agent.StatusWaiting {
			return true
		}
	}
	return len(childrenOf(events)) > 0
}

// childrenOf are the turns that a turn asked for.
func childrenOf(events []agent.Event) []agent.TurnID {
	var ids []agent.TurnID
	for i := range events {
		if id, ok := strings.CutPrefix(events[i].Ref, childPrefix); ok && events[i].Type == agent.EventToolStart {
			ids = append(ids, agent.TurnID(id))
		}
	}
	return ids
}

// exists reports whether a turn has a workflow.
func (s *stage) exists(id agent.TurnID) bool {
	s.t.Helper()
	_, err := s.Temporal().DescribeWorkflowExecution(s.t.Context(), id.WorkflowID(), "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return false
	}
	require.NoError(s.t, err)
	return true
}
