package core

import (
	"errors"
	"fmt"
	"slices"
)

// MaxVisits is the maximum number of visits of one run. Work that repeats more often belongs in a schedule.
const MaxVisits = 10_000

// Phase is the current phase of a node.
type Phase string

// The phases. A node is idle before it is asked and after its visit has ended.
const (
	Idle    Phase = ""
	Asked   Phase = "asked"
	Running Phase = "running"
)

// Status is the outcome of a visit or a run.
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
	From   []Source `json:"from,omitempty"` // the newest visit of each node that has fired an edge to it since its last visit began, in node order
}

// State is the part of a run that changes. Continue-as-new passes it on.
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

// Visit is a visit of a node that begins now.
type Visit struct {
	Node  int
	Visit int      // 1 for the first
	From  []Source // the visits whose outputs are its input; if empty, the input is that of the run
}

// Kind is the kind of an action.
type Kind int

// The kinds of actions.
const (
	Wait   Kind = iota // wait until a visit ends
	Begin              // begin Visits, concurrently
	Finish             // end the run with Status
)

// Action is what to do next.
type Action struct {
	Kind   Kind
	Visits []Visit // Begin
	Status Status  // Finish
}

// Result is the result of a visit.
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

// State returns the state from which [Resume] continues the run.
func (r *Run) State() State {
	s := r.state
	s.Nodes = slices.Clone(s.Nodes)
	return s
}

// Stopping reports whether the run begins no more visits.
func (r *Run) Stopping() bool { return r.state.Failed || r.state.Cancelled || r.state.Exhausted }

// Cancel makes the run begin no more visits.
func (r *Run) Cancel() { r.state.Cancelled = true }

// Next returns the next action. Its visits count as running until [Run.After] is called for each of them.
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
		node := &r.state.Nodes[n]
		node.Phase, node.Visits = Running, node.Visits+1
		r.state.Visits++
		out = append(out, Visit{Node: n, Visit: node.Visits, From: node.From})
		node.From = nil
	}
	return out
}

// mayBeReached reports whether a running or asked node leads to a node.
func (r *Run) mayBeReached(node int) bool {
	for other := range r.state.Nodes {
		if r.state.Nodes[other].Phase != Idle && r.reachable[other][node] {
			return true
		}
	}
	return false
}

// After records the result of a node's visit and fires its edges. It ignores nodes that are not running.
func (r *Run) After(node int, res Result) {
	if node < 0 || node >= len(r.state.Nodes) || r.state.Nodes[node].Phase != Running {
		return
	}
	state := &r.state.Nodes[node]
	state.Phase, state.Last = Idle, res.Status
	if len(state.From) > 0 { // an edge fired while it was running
		state.Phase = Asked
	}
	switch res.Status {
	case Completed:
		r.fireEdges(Source{Node: node, Visit: state.Visits}, res.Outcome)
	case Cancelled:
		if !r.Stopping() {
			r.state.Cancelled = true
		}
	default:
		r.state.Failed = true
	}
}

// fireEdges asks the nodes that the edges for an outcome lead to.
func (r *Run) fireEdges(from Source, outcome string) {
	for _, e := range r.skeleton.Edges {
		if e.From != from.Node || (e.On != "" && e.On != outcome) {
			continue
		}
		to := &r.state.Nodes[e.To]
		i, found := slices.BinarySearchFunc(to.From, from.Node, func(s Source, node int) int { return s.Node - node })
		sources := slices.Clone(to.From) // a visit that began may share the old slice
		if found {
			sources[i] = from
		} else {
			sources = slices.Insert(sources, i, from)
		}
		to.From = sources
		if to.Phase == Idle {
			to.Phase = Asked
		}
	}
}
