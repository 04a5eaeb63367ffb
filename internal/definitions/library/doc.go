// Package library keeps the workflow definitions of this runtime: it validates, patches and reverts them. Every change makes a new version. A
// request that is repeated under its idempotency key gets the first result again.
//
// A definition is a document of nodes, edges and schedules ([agent.WorkflowDefinition]). A valid one can be run: both ends of every edge
// exist, every condition compiles, every node is reachable from an entry node (one without incoming edges), and every cycle passes through
// a timer. Documents are decoded strictly. All faults are reported at once, each with its path, such as nodes[3].config.to.
//
// Changes at the same time do not overwrite each other. A change that names its base version is refused if that is not the newest. A patch without
// a base version is applied to the newest version, and again if another change came first.
package library
