package library

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// checkReachability checks that there is an entry node, that every node is reachable from an entry node, and that every cycle passes through a timer.
func (c *checker) checkReachability() {
	next, entries := c.successors()
	if len(c.definition.Nodes) > 0 && len(entries) == 0 {
		c.addFault("nodes", "there is no node to begin with: an edge leads to each of them")
	}
	if cycle := c.findCycle(next); cycle != nil {
		c.addFault("edges", "lead in a circle without a node of type %s: %s", agent.WorkflowTimer, strings.Join(cycle, " → "))
	}
	if len(c.faults) > 0 {
		return
	}
	reached := make([]bool, len(next))
	for queue := entries; len(queue) > 0; {
		node := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if reached[node] {
			continue
		}
		reached[node] = true
		queue = append(queue, next[node]...)
	}
	for i, isReached := range reached {
		if !isReached {
			c.addFault(fmt.Sprintf("nodes[%d]", i), "%q is never reached: no way leads to it from a node to begin with", c.definition.Nodes[i].ID)
		}
	}
}

// successors returns the targets of the edges of each node, and the nodes without incoming edges, all by index.
func (c *checker) successors() (next [][]int, entries []int) {
	next = make([][]int, len(c.definition.Nodes))
	hasPredecessor := make([]bool, len(next))
	for i := range c.definition.Edges {
		from, to := c.index[c.definition.Edges[i].From], c.index[c.definition.Edges[i].To]
		next[from] = append(next[from], to)
		hasPredecessor[to] = true
	}
	for i := range next {
		if !hasPredecessor[i] {
			entries = append(entries, i)
		}
	}
	return next, entries
}

// findCycle returns the IDs of the nodes of a cycle without a timer, with the first ID repeated at the end, nil if there is no such cycle.
func (c *checker) findCycle(next [][]int) []string {
	const (
		unvisited = iota
		open
		done
	)
	states := make([]int, len(next))
	var path []int
	var visit func(node int) []int
	visit = func(node int) []int {
		states[node] = open
		path = append(path, node)
		for _, to := range next[node] {
			if c.definition.Nodes[to].Type == agent.WorkflowTimer {
				continue
			}
			if states[to] == open {
				return append(slices.Clone(path[slices.Index(path, to):]), to)
			}
			if states[to] == unvisited {
				if found := visit(to); found != nil {
					return found
				}
			}
		}
		states[node] = done
		path = path[:len(path)-1]
		return nil
	}
	for i := range next {
		if states[i] != unvisited {
			continue
		}
		if found := visit(i); found != nil {
			ids := make([]string, len(found))
			for k, node := range found {
				ids[k] = c.definition.Nodes[node].ID
			}
			return ids
		}
	}
	return nil
}
