package core

import (
	"errors"
	"fmt"
	"slices"
)

// MaxVisits bounds the visits of one run: what repeats for longer is a schedule's work, or the next run's.
const MaxVisits = 10_000

// Phase says where a node stands.
type Phase string

// The phases. A node that was not visited, and one whose visit has ended, are idle until they are asked.
const (
	Idle    Phase = ""
	Asked   Phase = "asked"
	Running Phase = "running"
)

// Status is how the last visit of a node ended.
type Status string

// The ends of a visit.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Mark is what the run knows of a node.
type Mark struct {
	Phase  Phase    `json:"phase,omitempty"`
	Visits int      `json:"visits,omitempty"`
	Last   Status   `json:"last,omitempty"`
	From   []Source `json:"from,omitempty"` // what fired since the last visit began: the newest of each node, in the order of nodes
}

// State is all that changes in a run, as it is carried along.
type State struct {
	Marks     []Mark `json:"marks"`
	Visits    int    `json:"visits"`
	Failed    bool   `json:"failed,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Exhausted bool   `json:"exhausted,omitempty"` // MaxVisits were made and there is more to do
}

// Run is one execution of a skeleton.
type Run struct {
	skeleton Skeleton
	state    State
	back     []bool
	reach    [][]bool
}

// Visit asks for one visit of a node.
type Visit struct {
	Node  int
	Visit int      // 1 for the first
	From  []Source // empty: the run's input comes in
}

// Kind says what comes next.
type Kind int

// The kinds of actions.
const (
	Wait   Kind = iota // for a visit to end
	Begin              // these visits, at once
	Finish             // the run is over
)

// Action is what to do next.
type Action struct {
	Kind   Kind
	Visits []Visit // Begin
	Status Status  // Finish
}

// Result is how a visit ended.
type Result struct {
	Status  Status
	Outcome string // of a condition: true or false
}

// New begins a run.
func New(s Skeleton) (*Run, error) {
	r, err := Resume(s, State{Marks: make([]Mark, len(s.Nodes))})
	if err != nil {
		return nil, err
	}
	entries := s.entries()
	if len(entries) == 0 {
		return nil, errors.New("the workflow has no node to begin with: something leads to each of them")
	}
	for _, n := range entries {
		r.state.Marks[n].Phase = Asked
	}
	return r, nil
}

// Resume goes on with a run.
func Resume(s Skeleton, state State) (*Run, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(state.Marks) != len(s.Nodes) {
		return nil, fmt.Errorf("the state is of %d nodes, the workflow has %d", len(state.Marks), len(s.Nodes))
	}
	state.Marks = slices.Clone(state.Marks)
	back := s.closing(s.entries())
	return &Run{skeleton: s, state: state, back: back, reach: s.reach(back)}, nil
}

// State returns what [Resume] takes.
func (r *Run) State() State {
	s := r.state
	s.Marks = slices.Clone(s.Marks)
	return s
}

// Stopping reports whether no more visits begin.
func (r *Run) Stopping() bool { return r.state.Failed || r.state.Cancelled || r.state.Exhausted }

// Cancel begins no more visits.
func (r *Run) Cancel() { r.state.Cancelled = true }

// Next says what to do. The visits that it names are at work from then on, until [Run.After] is told of each.
func (r *Run) Next() Action {
	var visits []Visit
	if !r.Stopping() {
		visits = r.ready()
	}
	if len(visits) > 0 {
		return Action{Kind: Begin, Visits: visits}
	}
	for i := range r.state.Marks {
		if r.state.Marks[i].Phase == Running {
			return Action{Kind: Wait}
		}
	}
	status := Completed
	switch {
	case r.state.Failed || r.state.Exhausted:
		status = Failed
	case r.state.Cancelled:
		status = Cancelled
	}
	return Action{Kind: Finish, Status: status}
}

// ready takes the nodes that nothing can ask again before they are visited.
func (r *Run) ready() []Visit {
	var nodes []int
	for n := range r.state.Marks {
		if r.state.Marks[n].Phase == Asked && !r.awaited(n) {
			nodes = append(nodes, n)
		}
	}
	var out []Visit
	for _, n := range nodes {
		if r.state.Visits >= MaxVisits {
			r.state.Exhausted = true
			break
		}
		m := &r.state.Marks[n]
		m.Phase, m.Visits = Running, m.Visits+1
		r.state.Visits++
		out = append(out, Visit{Node: n, Visit: m.Visits, From: m.From})
		m.From = nil
	}
	return out
}

// awaited reports whether something that is running or asked leads to a node.
func (r *Run) awaited(n int) bool {
	for other := range r.state.Marks {
		if r.state.Marks[other].Phase != Idle && r.reach[other][n] {
			return true
		}
	}
	return false
}

// After takes in how the visit of a node ended and fires its edges. Nodes that are not at work are ignored.
func (r *Run) After(node int, res Result) {
	if node < 0 || node >= len(r.state.Marks) || r.state.Marks[node].Phase != Running {
		return
	}
	m := &r.state.Marks[node]
	m.Phase, m.Last = Idle, res.Status
	if len(m.From) > 0 { // asked again meanwhile
		m.Phase = Asked
	}
	switch res.Status {
	case Completed:
		r.fire(Source{Node: node, Visit: m.Visits}, res.Outcome)
	case Cancelled:
		if !r.Stopping() {
			r.state.Cancelled = true
		}
	default:
		r.state.Failed = true
	}
}

func (r *Run) fire(from Source, outcome string) {
	for _, e := range r.skeleton.Edges {
		if e.From != from.Node || (e.On != "" && e.On != outcome) {
			continue
		}
		to := &r.state.Marks[e.To]
		at, found := slices.BinarySearchFunc(to.From, from.Node, func(s Source, node int) int { return s.Node - node })
		sources := slices.Clone(to.From) // the visit before has the old ones
		if found {
			sources[at] = from
		} else {
			sources = slices.Insert(sources, at, from)
		}
		to.From = sources
		if to.Phase == Idle {
			to.Phase = Asked
		}
	}
}
