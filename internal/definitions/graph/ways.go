package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// ways checks what can only be said of a graph as a whole: where it begins, and that it does not run in circles.
func (c *checker) ways() {
	next, entries := c.successors()
	if len(c.definition.Nodes) > 0 && len(entries) == 0 {
		c.fault("nodes", "there is no node to begin with: an edge leads to each of them")
	}
	if circle := c.circle(next); circle != nil {
		c.fault("edges", "lead in a circle without a node of type %s: %s", agent.WorkflowTimer, strings.Join(circle, " → "))
	}
	if len(c.faults) > 0 {
		return
	}
	reached := make([]bool, len(next))
	for queue := entries; len(queue) > 0; {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if reached[at] {
			continue
		}
		reached[at] = true
		queue = append(queue, next[at]...)
	}
	for i, ok := range reached {
		if !ok {
			c.fault(fmt.Sprintf("nodes[%d]", i), "%q is never reached: no way leads to it from a node to begin with", c.definition.Nodes[i].ID)
		}
	}
}

// successors returns, by index, the nodes behind each node, and those that none is before.
func (c *checker) successors() (next [][]int, entries []int) {
	next = make([][]int, len(c.definition.Nodes))
	before := make([]int, len(next))
	for i := range c.definition.Edges {
		from, to := c.index[c.definition.Edges[i].From], c.index[c.definition.Edges[i].To]
		next[from] = append(next[from], to)
		before[to]++
	}
	for i, n := range before {
		if n == 0 {
			entries = append(entries, i)
		}
	}
	return next, entries
}

// circle returns the ids of nodes that lead to each other and never wait, the first one again at the end; nil when there are none.
func (c *checker) circle(next [][]int) []string {
	const (
		unseen = iota
		open
		done
	)
	states := make([]int, len(next))
	var way []int
	var visit func(at int) []int
	visit = func(at int) []int {
		states[at] = open
		way = append(way, at)
		for _, to := range next[at] {
			if c.definition.Nodes[to].Type == agent.WorkflowTimer {
				continue
			}
			if states[to] == open {
				return append(slices.Clone(way[slices.Index(way, to):]), to)
			}
			if states[to] == unseen {
				if found := visit(to); found != nil {
					return found
				}
			}
		}
		states[at] = done
		way = way[:len(way)-1]
		return nil
	}
	for i := range next {
		if states[i] != unseen {
			continue
		}
		if found := visit(i); found != nil {
			ids := make([]string, len(found))
			for k, at := range found {
				ids[k] = c.definition.Nodes[at].ID
			}
			return ids
		}
	}
	return nil
}
