package core

import (
	"errors"
	"fmt"
	"slices"
)

// MaxVisits is the maximum number of visits of one run. Work that repeats for longer belongs to a schedule.
const MaxVisits = 10_000

// Phase says where a node stands.
type Phase string

// The phases. A node is idle before it is asked and after its visit has ended.
const (
	Idle    Phase = ""
	Asked   Phase = "asked"
	Running Phase = "running"
)

// Status is how the last visit of a node ended.
type Status string

// The outcomes of a visit.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// NodeState is the state of a node in a run.
type NodeState struct {
	Phase  Phase    `json:"phase,omitempty"`
	Visits int      `json:"visits,omitempty"`
	Last   Status   `json:"last,omitempty"`
	From   []Source `json:"from,omitempty"` // visits that fired an edge to it since its last visit began: the newest of each node, in node order
}

// State is everything that changes in a run. Continue-as-new carries it.
type State struct {
	Nodes     []NodeState `json:"marks"`
	Visits    int         `json:"visits"`
	Failed    bool        `json:"failed,omitempty"`
	Cancelled bool        `json:"cancelled,omitempty"`
	Exhausted bool        `json:"exhausted,omitempty"` // the run needs more than MaxVisits
}

// Run is one execution of a skeleton.
type Run struct {
	skeleton   Skeleton
	state      State
	isBackEdge []bool
	reachable  [][]bool
}

// Visit asks for one visit of a node.
type Visit struct {
	Node  int
	Visit int      // 1 for the first
	From  []Source // the visits whose outputs are its input; empty: the run's input
}

// Kind is the kind of an action.
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

// New returns a run that has not begun.
func New(s Skeleton) (*Run, error) {
	r, err := Resume(s, State{Nodes: make([]NodeState, len(s.Nodes))})
	if err != nil {
		return nil, err
	}
	entries := s.entryNodes()
	if len(entries) == 0 {
		return nil, errors.New("the workflow has no node to begin with: something leads to each of them")
	}
	for _, n := range entries {
		r.state.Nodes[n].Phase = Asked
	}
	return r, nil
}

// Resume returns a run that continues from a state.
func Resume(s Skeleton, state State) (*Run, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if len(state.Nodes) != len(s.Nodes) {
		return nil, fmt.Errorf("the state is of %d nodes, the workflow has %d", len(state.Nodes), len(s.Nodes))
	}
	state.Nodes = slices.Clone(state.Nodes)
	isBack := s.findBackEdges(s.entryNodes())
	return &Run{skeleton: s, state: state, isBackEdge: isBack, reachable: s.reachableNodes(isBack)}, nil
}

// State returns what [Resume] takes.
func (r *Run) State() State {
	s := r.state
	s.Nodes = slices.Clone(s.Nodes)
	return s
}

// Stopping reports whether the run begins no more visits.
func (r *Run) Stopping() bool { return r.state.Failed || r.state.Cancelled || r.state.Exhausted }

// Cancel makes the run begin no more visits.
func (r *Run) Cancel() { r.state.Cancelled = true }

// Next returns what to do next. The visits in it are running from then on, until [Run.After] is called for each.
func (r *Run) Next() Action {
	var visits []Visit
	if !r.Stopping() {
		visits = r.beginVisits()
	}
	if len(visits) > 0 {
		return Action{Kind: Begin, Visits: visits}
	}
	for i := range r.state.Nodes {
		if r.state.Nodes[i].Phase == Running {
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

// beginVisits returns the visits that may begin now and marks their nodes as running.
func (r *Run) beginVisits() []Visit {
	var nodes []int
	for n := range r.state.Nodes {
		if r.state.Nodes[n].Phase == Asked && !r.mayBeReached(n) {
			nodes = append(nodes, n)
		}
	}
	var out []Visit
	for _, n := range nodes {
		if r.state.Visits >= MaxVisits {
			r.state.Exhausted = true
			break
		}
		m := &r.state.Nodes[n]
		m.Phase, m.Visits = Running, m.Visits+1
		r.state.Visits++
		out = append(out, Visit{Node: n, Visit: m.Visits, From: m.From})
		m.From = nil
	}
	return out
}

// mayBeReached reports whether a running or asked node leads to the given one.
func (r *Run) mayBeReached(node int) bool {
	for other := range r.state.Nodes {
		if r.state.Nodes[other].Phase != Idle && r.reachable[other][node] {
			return true
		}
	}
	return false
}

// After records how the visit of a node ended and fires its edges. It ignores nodes that are not running.
func (r *Run) After(node int, res Result) {
	if node < 0 || node >= len(r.state.Nodes) || r.state.Nodes[node].Phase != Running {
		return
	}
	m := &r.state.Nodes[node]
	m.Phase, m.Last = Idle, res.Status
	if len(m.From) > 0 { // asked again while it was running
		m.Phase = Asked
	}
	switch res.Status {
	case Completed:
		r.fireEdges(Source{Node: node, Visit: m.Visits}, res.Outcome)
	case Cancelled:
		if !r.Stopping() {
			r.state.Cancelled = true
		}
	default:
		r.state.Failed = true
	}
}

// fireEdges asks the nodes that the edges for this outcome lead to.
func (r *Run) fireEdges(from Source, outcome string) {
	for _, e := range r.skeleton.Edges {
		if e.From != from.Node || (e.On != "" && e.On != outcome) {
			continue
		}
		to := &r.state.Nodes[e.To]
		at, found := slices.BinarySearchFunc(to.From, from.Node, func(s Source, node int) int { return s.Node - node })
		sources := slices.Clone(to.From) // the visit that began has the old slice
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
