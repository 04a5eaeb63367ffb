// Package core decides which nodes of a definition are visited next. It is pure; the workflow DefinedWorkflow carries out its actions.
//
//	         edge fires                    no running or asked node can still lead here
//	idle ──────────────────▶ asked ────────────────────────────────────────────────▶ running
//	  ▲                                                                                 │
//	  └───────────────────────── After: its own edges fire ─────────────────────────────┘
//
// A node without incoming edges is asked when the run begins. An asked node is visited when no running or asked node can still lead to it. So a
// node that joins several branches is visited once for all of them, in whatever order they end, and it does not wait for a branch that a
// condition did not take. Its input is the outputs of all edges that have fired until then.
//
// Every cycle passes through a timer, as the validation of definitions ensures. The edge that closes a cycle is found by a walk from the entry
// nodes in the definition's order. It asks for a new visit of its target, and no node waits for it. A node never runs twice at once: edges that
// fire while it runs cause one more visit afterwards.
//
// After a failed node or a cancel no visits begin. The run ends when the running visits have ended.
package core
