// Package graph reads, checks and patches workflow definitions: documents of nodes, edges and schedules (agent.WorkflowDefinition).
//
// A valid definition can be run: both ends of every edge exist, every condition compiles, every node is reachable from an entry node (one without
// incoming edges), and every cycle passes through a timer. Documents are decoded strictly. All faults are reported at once, each with its
// path, such as nodes[3].config.to.
package graph
