// Package library stores workflow definitions: it validates, patches and reverts them. Every change makes a new version. A request that is repeated
// with its idempotency key returns the first result.
//
// A definition is a document of nodes, edges and schedules ([agent.WorkflowDefinition]). In a valid definition both ends of every edge exist, every
// condition compiles, every node is reachable from an entry node (a node without incoming edges), and every cycle passes through a timer. Documents
// are decoded strictly. All faults are reported at once with their paths, such as nodes[3].config.to.
//
// Concurrent changes do not overwrite each other. A change that names its base version is refused if that is not the newest version. A patch without
// a base version is applied to the newest version, and is repeated if another change came first.
package library
