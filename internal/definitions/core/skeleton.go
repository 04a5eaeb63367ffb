package core

import (
	"errors"
	"fmt"
)

// Version is the version of the rules of this package; a run keeps the one that it began with.
const Version = 1

// MaxNodes bounds a skeleton.
const MaxNodes = 256

// maxEdges bounds a skeleton.
const maxEdges = 4096

// Skeleton is a definition without its words: what the workflow knows of it.
type Skeleton struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is one step of the definition.
type Node struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Action    string `json:"action,omitempty"`     // of a task; the agent of an agent node
	WaitMS    int64  `json:"wait_ms,omitempty"`    // of a timer
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // of one visit; 0: the runtime's own
}

// Edge leads from one node to another, both by their index.
type Edge struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	On   string `json:"on,omitempty"` // the outcome that it is for; empty: any
}

// Source is a visit that has fired an edge: its output comes into the next one.
type Source struct {
	Node  int `json:"node"`
	Visit int `json:"visit"`
}

// check holds a skeleton against the bounds.
func (s *Skeleton) check() error {
	switch {
	case len(s.Nodes) == 0:
		return errors.New("the workflow has no nodes")
	case len(s.Nodes) > MaxNodes:
		return fmt.Errorf("the workflow has %d nodes, at most %d", len(s.Nodes), MaxNodes)
	case len(s.Edges) > maxEdges:
		return fmt.Errorf("the workflow has %d edges, at most %d", len(s.Edges), maxEdges)
	}
	for i, e := range s.Edges {
		if e.From < 0 || e.From >= len(s.Nodes) || e.To < 0 || e.To >= len(s.Nodes) {
			return fmt.Errorf("edge %d leads nowhere", i)
		}
	}
	return nil
}

// entries are the nodes that nothing leads to.
func (s *Skeleton) entries() []int {
	led := make([]bool, len(s.Nodes))
	for _, e := range s.Edges {
		led[e.To] = true
	}
	var out []int
	for i := range s.Nodes {
		if !led[i] {
			out = append(out, i)
		}
	}
	return out
}

// closing finds the edges that close a cycle, walking depth first from the entries in the definition's order.
func (s *Skeleton) closing(entries []int) []bool {
	const (
		fresh = iota
		open
		done
	)
	var (
		back  = make([]bool, len(s.Edges))
		state = make([]int, len(s.Nodes))
		walk  func(n int)
	)
	walk = func(n int) { // at most MaxNodes deep
		state[n] = open
		for i, e := range s.Edges {
			if e.From != n {
				continue
			}
			switch state[e.To] {
			case open:
				back[i] = true
			case fresh:
				walk(e.To)
			}
		}
		state[n] = done
	}
	for _, n := range entries {
		if state[n] == fresh {
			walk(n)
		}
	}
	return back
}

// reach says which nodes each node leads to without closing a cycle; itself only where it is asked again.
func (s *Skeleton) reach(back []bool) [][]bool {
	out := make([][]bool, len(s.Nodes))
	next := make([][]int, len(s.Nodes))
	for i, e := range s.Edges {
		if !back[i] {
			next[e.From] = append(next[e.From], e.To)
		}
	}
	for n := range s.Nodes {
		out[n] = make([]bool, len(s.Nodes))
		todo := []int{n}
		for len(todo) > 0 {
			last := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, to := range next[last] {
				if !out[n][to] {
					out[n][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	return out
}
