package core

import (
	"errors"
	"fmt"
)

// Version is the version of the rules of this package. A run keeps the version that it began with.
const Version = 1

// MaxNodes is the maximum number of nodes.
const MaxNodes = 256

// maxEdges is the maximum number of edges.
const maxEdges = 4096

// Skeleton is the part of a definition that its workflow needs. It has no texts and no expressions.
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

// Edge leads from one node to another. Both are indexes of Nodes.
type Edge struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	On   string `json:"on,omitempty"` // the outcome that fires it; empty: any
}

// Source is a visit that has fired an edge. Its output is part of the input of the next visit.
type Source struct {
	Node  int `json:"node"`
	Visit int `json:"visit"`
}

// validate checks the number of nodes and edges, and that the edges lead to nodes.
func (s *Skeleton) validate() error {
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

// entryNodes returns the nodes without incoming edges.
func (s *Skeleton) entryNodes() []int {
	hasPredecessor := make([]bool, len(s.Nodes))
	for _, e := range s.Edges {
		hasPredecessor[e.To] = true
	}
	var out []int
	for i := range s.Nodes {
		if !hasPredecessor[i] {
			out = append(out, i)
		}
	}
	return out
}

// findBackEdges returns, for each edge, whether it closes a cycle in a depth-first walk from the entry nodes in the definition's order.
func (s *Skeleton) findBackEdges(entries []int) []bool {
	const (
		unvisited = iota
		open
		done
	)
	var (
		isBack = make([]bool, len(s.Edges))
		state  = make([]int, len(s.Nodes))
		walk   func(n int)
	)
	walk = func(n int) { // at most MaxNodes deep
		state[n] = open
		for i, e := range s.Edges {
			if e.From != n {
				continue
			}
			switch state[e.To] {
			case open:
				isBack[i] = true
			case unvisited:
				walk(e.To)
			}
		}
		state[n] = done
	}
	for _, n := range entries {
		if state[n] == unvisited {
			walk(n)
		}
	}
	return isBack
}

// reachableNodes returns, for each node, whether it leads to each other node without an edge that closes a cycle.
func (s *Skeleton) reachableNodes(isBack []bool) [][]bool {
	reachable := make([][]bool, len(s.Nodes))
	successors := make([][]int, len(s.Nodes))
	for i, e := range s.Edges {
		if !isBack[i] {
			successors[e.From] = append(successors[e.From], e.To)
		}
	}
	for n := range s.Nodes {
		reachable[n] = make([]bool, len(s.Nodes))
		stack := []int{n}
		for len(stack) > 0 {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, to := range successors[last] {
				if !reachable[n][to] {
					reachable[n][to] = true
					stack = append(stack, to)
				}
			}
		}
	}
	return reachable
}
