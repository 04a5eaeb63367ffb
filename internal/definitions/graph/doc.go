// Package graph reads, checks and patches workflow definitions: documents of nodes, edges and schedules (agent.WorkflowDefinition).
//
// What it accepts can be run: every edge has two ends, every condition compiles, every node is reached from an entry (a node that no edge
// leads to), and a way back leads through a timer, so that a loop waits. Documents are read strictly; all that is wrong is said at once,
// each with its place, such as nodes[3].config.to.
package graph
