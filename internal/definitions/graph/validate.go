package graph

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of members.
const (
	maxDescription = 4_000 // bytes
	maxName        = 200   // bytes
	maxFaults      = 20    // told of one definition
	maxShown       = 200   // bytes of a text that a fault repeats
	maxExpressions = 500   // of all nodes: each takes about a millisecond to check
)

// Validate says what keeps a definition from being run.
func Validate(d *agent.WorkflowDefinition) agent.Faults {
	c := &checker{definition: d, index: make(map[string]int, min(len(d.Nodes), MaxNodes))}
	if len(d.Description) > maxDescription {
		c.fault("description", "is %d bytes, at most %d", len(d.Description), maxDescription)
	}
	if c.many("nodes", len(d.Nodes), MaxNodes) || c.many("edges", len(d.Edges), MaxEdges) || c.many("schedules", len(d.Schedules), MaxSchedules) {
		return c.faults
	}
	if len(d.Nodes) == 0 {
		c.fault("nodes", "is empty")
	}
	c.nodes()
	c.edges()
	c.schedules()
	if len(c.faults) == 0 { // the ways through a graph say something only when the graph is one
		c.ways()
	}
	return c.faults
}

// checker collects faults.
type checker struct {
	definition *agent.WorkflowDefinition
	index      map[string]int // of nodes, by id
	faults     agent.Faults

	expressions int // that were compiled
}

func (c *checker) fault(path, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, agent.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) add(faults agent.Faults) {
	for _, f := range faults {
		c.fault(f.Path, "%s", f.Message)
	}
}

func (c *checker) many(path string, n, most int) bool {
	if n > most {
		c.fault(path, "are %d, at most %d", n, most)
	}
	return n > most
}

func one(path, format string, args ...any) agent.Faults {
	return agent.Faults{{Path: path, Message: fmt.Sprintf(format, args...)}}
}

// identifier checks the name of a node or a schedule.
func (c *checker) identifier(path, id string) bool {
	if agent.ValidName(id) {
		return true
	}
	if id == "" {
		c.fault(path, "is required")
		return false
	}
	c.fault(path, "%q is not 1 to 128 of A-Z a-z 0-9 . _ -", clip(id))
	return false
}

func (c *checker) nodes() {
	for i := range c.definition.Nodes {
		n := &c.definition.Nodes[i]
		path := fmt.Sprintf("nodes[%d]", i)
		if c.identifier(path+".id", n.ID) {
			if first, twice := c.index[n.ID]; twice {
				c.fault(path+".id", "%q is the id of nodes[%d] already", n.ID, first)
			} else {
				c.index[n.ID] = i
			}
		}
		if len(n.Name) > maxName {
			c.fault(path+".name", "is %d bytes, at most %d", len(n.Name), maxName)
		}
		_, faults := settings(path, n, &c.expressions)
		c.add(faults)
	}
}

func (c *checker) edges() {
	type ends struct{ from, to string }
	seen := make(map[ends]int, len(c.definition.Edges))
	for i := range c.definition.Edges {
		e := &c.definition.Edges[i]
		path := fmt.Sprintf("edges[%d]", i)
		known := c.end(path+".from", e.From)
		known = c.end(path+".to", e.To) && known
		c.outcome(path+".condition", e)
		if !known {
			continue
		}
		if e.From == e.To {
			c.fault(path, "leads from %q to itself", e.From)
		}
		key := ends{e.From, e.To}
		if first, twice := seen[key]; twice {
			c.fault(path, "leads from %q to %q as edges[%d] does", e.From, e.To, first)
			continue
		}
		seen[key] = i
	}
}

func (c *checker) end(path, id string) bool {
	_, known := c.index[id]
	switch {
	case known:
	case id == "":
		c.fault(path, "is required")
	default:
		c.fault(path, "there is no node %q", clip(id))
	}
	return known
}

// outcome checks the condition of an edge.
func (c *checker) outcome(path string, e *agent.WorkflowEdge) {
	if e.Condition == "" {
		return
	}
	if e.Condition != "true" && e.Condition != "false" {
		c.fault(path, `want "true" or "false", got %q; an expression belongs to a node of type %s`, clip(e.Condition), agent.WorkflowCondition)
		return
	}
	if i, known := c.index[e.From]; known && c.definition.Nodes[i].Type != agent.WorkflowCondition {
		c.fault(path, "is for edges from a node of type %s, and %q is of type %s", agent.WorkflowCondition, e.From, clip(c.definition.Nodes[i].Type))
	}
}

// clip shortens a text that somebody else wrote.
func clip(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}
