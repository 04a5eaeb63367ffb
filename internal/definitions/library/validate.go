package library

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of members.
const (
	maxName        = 200 // bytes
	maxFaults      = 20  // of one definition
	maxQuoted      = 200 // bytes of a text that a fault quotes
	maxExpressions = 500 // of all nodes; compiling an expression takes about a millisecond
)

// validate returns the faults of a definition, nil if it is valid.
func validate(d *agent.WorkflowDefinition) agent.Faults {
	c := &checker{definition: d, index: make(map[string]int, min(len(d.Nodes), maxNodes))}
	if len(d.Description) > maxDescription {
		c.addFault("description", "is %d bytes, at most %d", len(d.Description), maxDescription)
	}
	if c.exceeds("nodes", len(d.Nodes), maxNodes) || c.exceeds("edges", len(d.Edges), maxEdges) || c.exceeds("schedules", len(d.Schedules), maxSchedules) {
		return c.faults
	}
	if len(d.Nodes) == 0 {
		c.addFault("nodes", "is empty")
	}
	c.checkNodes()
	c.checkEdges()
	c.checkSchedules()
	if len(c.faults) == 0 { // the graph can be searched only if its edges are valid
		c.checkReachability()
	}
	return c.faults
}

// checker collects the faults of a definition.
type checker struct {
	definition *agent.WorkflowDefinition
	index      map[string]int // of nodes, by ID
	faults     agent.Faults

	expressions int // number of compiled expressions
}

func (c *checker) addFault(path, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, agent.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

// exceeds reports whether a list is too long, and adds a fault if so.
func (c *checker) exceeds(path string, n, maxCount int) bool {
	if n > maxCount {
		c.addFault(path, "are %d, at most %d", n, maxCount)
	}
	return n > maxCount
}

func singleFault(path, format string, args ...any) agent.Faults {
	return agent.Faults{{Path: path, Message: fmt.Sprintf(format, args...)}}
}

// checkID reports whether the ID of a node or a schedule is valid, and adds a fault if not.
func (c *checker) checkID(path, id string) bool {
	if agent.ValidName(id) {
		return true
	}
	if id == "" {
		c.addFault(path, "is required")
		return false
	}
	c.addFault(path, "%q is not 1 to 128 of A-Z a-z 0-9 . _ -", clip.Bytes(id, maxQuoted))
	return false
}

func (c *checker) checkNodes() {
	for i := range c.definition.Nodes {
		n := &c.definition.Nodes[i]
		path := fmt.Sprintf("nodes[%d]", i)
		if c.checkID(path+".id", n.ID) {
			if first, isDuplicate := c.index[n.ID]; isDuplicate {
				c.addFault(path+".id", "%q is the id of nodes[%d] already", n.ID, first)
			} else {
				c.index[n.ID] = i
			}
		}
		if len(n.Name) > maxName {
			c.addFault(path+".name", "is %d bytes, at most %d", len(n.Name), maxName)
		}
		c.checkConfig(path, n)
	}
}

func (c *checker) checkEdges() {
	type ends struct{ from, to string }
	first := make(map[ends]int, len(c.definition.Edges))
	for i := range c.definition.Edges {
		e := &c.definition.Edges[i]
		path := fmt.Sprintf("edges[%d]", i)
		fromExists, toExists := c.checkEnd(path+".from", e.From), c.checkEnd(path+".to", e.To)
		c.checkEdgeCondition(path+".condition", e)
		if !fromExists || !toExists {
			continue
		}
		if e.From == e.To {
			c.addFault(path, "leads from %q to itself", e.From)
		}
		key := ends{e.From, e.To}
		if j, isDuplicate := first[key]; isDuplicate {
			c.addFault(path, "leads from %q to %q as edges[%d] does", e.From, e.To, j)
			continue
		}
		first[key] = i
	}
}

// checkEnd reports whether a node with an ID exists, and adds a fault if not.
func (c *checker) checkEnd(path, id string) bool {
	_, exists := c.index[id]
	switch {
	case exists:
	case id == "":
		c.addFault(path, "is required")
	default:
		c.addFault(path, "there is no node %q", clip.Bytes(id, maxQuoted))
	}
	return exists
}

// checkEdgeCondition checks the condition of an edge.
func (c *checker) checkEdgeCondition(path string, e *agent.WorkflowEdge) {
	if e.Condition == "" {
		return
	}
	if e.Condition != "true" && e.Condition != "false" {
		c.addFault(path, `want "true" or "false", got %q; an expression belongs to a node of type %s`, clip.Bytes(e.Condition, maxQuoted), agent.WorkflowCondition)
		return
	}
	if i, exists := c.index[e.From]; exists && c.definition.Nodes[i].Type != agent.WorkflowCondition {
		c.addFault(path, "is for edges from a node of type %s, and %q is of type %s",
			agent.WorkflowCondition, e.From, clip.Bytes(c.definition.Nodes[i].Type, maxQuoted))
	}
}
