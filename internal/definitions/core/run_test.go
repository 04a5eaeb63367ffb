package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// graph parses "a>b b?true>c". The nodes are in the order of their first appearance.
func graph(t *testing.T, text string) core.Skeleton {
	t.Helper()
	var s core.Skeleton
	node := func(id string) int {
		for i := range s.Nodes {
			if s.Nodes[i].ID == id {
				return i
			}
		}
		s.Nodes = append(s.Nodes, core.Node{ID: id, Type: "task"})
		return len(s.Nodes) - 1
	}
	for part := range strings.FieldsSeq(text) {
		from, to, isEdge := strings.Cut(part, ">")
		from, on, _ := strings.Cut(from, "?")
		i := node(from)
		if isEdge {
			s.Edges = append(s.Edges, core.Edge{From: i, To: node(to), On: on})
		}
	}
	return s
}

// playRun executes a run; pick selects which active visit ends next. The result lists the visits as "node visit(from…)" in start order.
func playRun(t *testing.T, s core.Skeleton, pick func(n int) int, result func(v core.Visit, id string) core.Result) ([]string, core.Status) {
	t.Helper()
	run, err := core.New(s)
	require.NoError(t, err)
	var began []string
	var working []core.Visit
	for range 4 * core.MaxVisits {
		switch a := run.Next(); a.Kind {
		case core.Begin:
			for _, v := range a.Visits {
				for _, w := range working {
					require.NotEqual(t, w.Node, v.Node, "a node runs twice at once")
				}
				var from []string
				for _, f := range v.From {
					from = append(from, fmt.Sprintf("%s%d", s.Nodes[f.Node].ID, f.Visit))
				}
				began = append(began, fmt.Sprintf("%s%d(%s)", s.Nodes[v.Node].ID, v.Visit, strings.Join(from, " ")))
				working = append(working, v)
			}
		case core.Wait:
			require.NotEmpty(t, working)
			i := pick(len(working))
			v := working[i]
			working = slices.Delete(working, i, i+1)
			run.After(v.Node, result(v, s.Nodes[v.Node].ID))
			// Resume from the state must not change the run.
			run, err = core.Resume(s, run.State())
			require.NoError(t, err)
		case core.Finish:
			require.Empty(t, working)
			return began, a.Status
		}
	}
	require.Fail(t, "the run does not end")
	return nil, ""
}

func first(int) int                           { return 0 }
func newest(n int) int                        { return n - 1 }
func complete(core.Visit, string) core.Result { return core.Result{Status: core.Completed} }

func TestVisitOrder(t *testing.T) {
	says := func(outcome string) func(core.Visit, string) core.Result {
		return func(core.Visit, string) core.Result { return core.Result{Status: core.Completed, Outcome: outcome} }
	}
	for _, c := range []struct {
		name, graph string
		result      func(core.Visit, string) core.Result
		want        string
		status      core.Status
	}{
		{"one node", "a", complete, "a1()", core.Completed},
		{"a line", "a>b b>c", complete, "a1() b1(a1) c1(b1)", core.Completed},
		{"two entries", "a>c b>c", complete, "a1() b1() c1(a1 b1)", core.Completed},
		{"a diamond joins", "a>b a>c b>d c>d", complete, "a1() b1(a1) c1(a1) d1(b1 c1)", core.Completed},
		{"a long arm is waited for", "a>d a>b b>c c>d", complete, "a1() b1(a1) c1(b1) d1(a1 c1)", core.Completed},
		{"the branch taken", "a?true>b a?false>c", says("true"), "a1() b1(a1)", core.Completed},
		{"the branch not taken is not waited for", "a?true>b a?false>c b>d c>d", says("false"), "a1() c1(a1) d1(c1)", core.Completed},
		{"always, beside a condition", "a?true>b a>c", says("false"), "a1() c1(a1)", core.Completed},
		{"nothing fires", "a?true>b", says(""), "a1()", core.Completed},
		{"both outcomes to one node", "a?true>b a?false>b", says("true"), "a1() b1(a1)", core.Completed},
	} {
		for _, pick := range []func(int) int{first, newest} {
			began, status := playRun(t, graph(t, c.graph), pick, c.result)
			want := strings.ReplaceAll(c.want, ") ", ")\n")
			require.ElementsMatch(t, strings.Split(want, "\n"), began, c.name)
			require.Equal(t, c.status, status, c.name)
		}
	}
}

func TestLoopRepeatsVisits(t *testing.T) {
	s := graph(t, "start>check check?true>mail check?false>timer timer>check")
	began, status := playRun(t, s, first, func(v core.Visit, id string) core.Result {
		r := core.Result{Status: core.Completed}
		if id == "check" {
			r.Outcome = fmt.Sprint(v.Visit == 3)
		}
		return r
	})
	require.Equal(t, []string{
		"start1()", "check1(start1)", "timer1(check1)", "check2(timer1)", "timer2(check2)", "check3(timer2)", "mail1(check3)",
	}, began)
	require.Equal(t, core.Completed, status)
}

func TestTimerFirstLoop(t *testing.T) {
	s := graph(t, "start>timer timer>check check?false>timer")
	began, _ := playRun(t, s, first, func(v core.Visit, _ string) core.Result {
		return core.Result{Status: core.Completed, Outcome: fmt.Sprint(v.Visit == 2)}
	})
	require.Equal(t, []string{"start1()", "timer1(start1)", "check1(timer1)", "timer2(check1)", "check2(timer2)"}, began)
}

// While a node is active, repeated triggers cause one more visit, with the newest source.
func TestSlowNodeBesideLoop(t *testing.T) {
	run, err := core.New(graph(t, "start>check check>slow check?again>timer timer>check"))
	require.NoError(t, err)
	const start, check, slow, timer = 0, 1, 2, 3
	completed := func(node int, outcome string) { run.After(node, core.Result{Status: core.Completed, Outcome: outcome}) }
	visit := func(node, visit, from, fromVisit int) core.Visit {
		return core.Visit{Node: node, Visit: visit, From: []core.Source{{Node: from, Visit: fromVisit}}}
	}
	require.Equal(t, []core.Visit{{Node: start, Visit: 1}}, run.Next().Visits)
	completed(start, "")
	require.Equal(t, []core.Visit{visit(check, 1, start, 1)}, run.Next().Visits)
	completed(check, "again")
	require.Equal(t, []core.Visit{visit(slow, 1, check, 1), visit(timer, 1, check, 1)}, run.Next().Visits)
	for round := 1; round < 3; round++ { // slow is active during all rounds
		completed(timer, "")
		require.Equal(t, []core.Visit{visit(check, round+1, timer, round)}, run.Next().Visits)
		completed(check, []string{"", "again", "done"}[round])
		if round == 1 {
			require.Equal(t, []core.Visit{visit(timer, 2, check, 2)}, run.Next().Visits)
		}
	}
	require.Equal(t, core.Wait, run.Next().Kind)
	completed(slow, "")
	require.Equal(t, []core.Visit{visit(slow, 2, check, 3)}, run.Next().Visits)
	completed(slow, "")
	require.Equal(t, core.Action{Kind: core.Finish, Status: core.Completed}, run.Next())
}

func TestFailureStopsNewVisits(t *testing.T) {
	s := graph(t, "a>b a>c b>d c>e")
	began, status := playRun(t, s, first, func(_ core.Visit, id string) core.Result {
		if id == "b" {
			return core.Result{Status: core.Failed}
		}
		return core.Result{Status: core.Completed}
	})
	require.Equal(t, []string{"a1()", "b1(a1)", "c1(a1)"}, began)
	require.Equal(t, core.Failed, status)
}

func TestCancel(t *testing.T) {
	run, err := core.New(graph(t, "a>b"))
	require.NoError(t, err)
	require.Equal(t, core.Begin, run.Next().Kind)
	run.Cancel()
	require.True(t, run.Stopping())
	require.Equal(t, core.Wait, run.Next().Kind)
	run.After(0, core.Result{Status: core.Completed})
	require.Equal(t, core.Action{Kind: core.Finish, Status: core.Cancelled}, run.Next())

	began, status := playRun(t, graph(t, "a>b"), first, func(core.Visit, string) core.Result { return core.Result{Status: core.Cancelled} })
	require.Equal(t, []string{"a1()"}, began)
	require.Equal(t, core.Cancelled, status)
}

func TestEndlessLoopIsBounded(t *testing.T) {
	run, err := core.New(graph(t, "start>timer timer>check check>timer"))
	require.NoError(t, err)
	visits := 0
	for {
		a := run.Next()
		if a.Kind == core.Finish {
			require.Equal(t, core.Failed, a.Status)
			require.True(t, run.State().Exhausted)
			break
		}
		for _, v := range a.Visits {
			visits++
			run.After(v.Node, core.Result{Status: core.Completed})
		}
	}
	require.Equal(t, core.MaxVisits, visits)
}

func TestNewRefusesSkeletons(t *testing.T) {
	big := core.Skeleton{Nodes: make([]core.Node, core.MaxNodes+1)}
	for name, s := range map[string]core.Skeleton{
		"no nodes": {}, "too many nodes": big, "no entry": graph(t, "a>b b>a"),
		"too many edges":       {Nodes: make([]core.Node, 1), Edges: make([]core.Edge, 5000)},
		"an edge to nowhere":   {Nodes: make([]core.Node, 1), Edges: []core.Edge{{From: 0, To: 1}}},
		"an edge from nowhere": {Nodes: make([]core.Node, 1), Edges: []core.Edge{{From: -1, To: 0}}},
	} {
		_, err := core.New(s)
		require.Error(t, err, name)
	}
	_, err := core.Resume(graph(t, "a>b"), core.State{})
	require.ErrorContains(t, err, "the state is of 0 nodes")
}

func TestAfterIgnoresIdleNodes(t *testing.T) {
	run, err := core.New(graph(t, "a>b"))
	require.NoError(t, err)
	run.After(1, core.Result{Status: core.Failed})
	run.After(7, core.Result{Status: core.Failed})
	require.False(t, run.Stopping())
}

// In a graph without cycles each node is visited once, with all its predecessors, in any order of completion.
func TestAcyclicVisitsEachNodeOnce(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(12)
		var s core.Skeleton
		for i := range n {
			s.Nodes = append(s.Nodes, core.Node{ID: fmt.Sprintf("n%d_", i)})
			for j := range i {
				if rnd.IntN(3) == 0 {
					s.Edges = append(s.Edges, core.Edge{From: j, To: i})
				}
			}
		}
		shuffled := slices.Clone(s.Edges)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		want, _ := playRun(t, s, first, complete)
		slices.Sort(want)
		require.Len(t, want, n)
		s.Edges = shuffled
		for range 4 {
			got, status := playRun(t, s, rnd.IntN, complete)
			slices.Sort(got)
			require.Equal(t, want, got, "seed %d", seed)
			require.Equal(t, core.Completed, status)
		}
	}
}

// Every run of any graph ends within the limits.
func TestEveryRunEnds(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		s := core.Skeleton{Nodes: []core.Node{{ID: "start"}}}
		n := 2 + rnd.IntN(8)
		for i := 1; i < n; i++ {
			s.Nodes = append(s.Nodes, core.Node{ID: fmt.Sprint("n", i)})
			for range 1 + rnd.IntN(2) {
				s.Edges = append(s.Edges, core.Edge{From: rnd.IntN(n), To: i, On: []string{"", "true", "false"}[rnd.IntN(3)]})
			}
		}
		ends := 0
		playRun(t, s, rnd.IntN, func(core.Visit, string) core.Result {
			ends++
			if ends > 200 { // end endless loops
				return core.Result{Status: core.Failed}
			}
			return core.Result{Status: core.Completed, Outcome: fmt.Sprint(rnd.IntN(2) == 0)}
		})
	}
}
