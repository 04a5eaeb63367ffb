// Package core decides which nodes of a definition are visited next. It is pure; the workflow DefinedWorkflow carries out its actions.
//
//	         edge fires                    no running or asked node can still lead here
//	idle ──────────────────▶ asked ────────────────────────────────────────────────▶ running
//	  ▲                                                                                 │
//	  └───────────────────────── After: its own edges fire ─────────────────────────────┘
//
// A node without incoming edges is asked when the run begins. A node that is asked is visited once no running or asked node can still lead to it.
// So a node behind several branches is visited once for all of them, whatever their order, and it does not wait for a branch that a condition
// did not take. The outputs of all edges that fired until then are its input.
//
// Cycles pass through timers: the validation of a definition ensures that. The edge that closes a cycle is found by walking from the entry nodes
// in the definition's order. It asks for a new visit of its target, and no node waits for it. A node never runs twice at once: edges that fire
// while it runs cause one more visit afterwards.
//
// After a failed node or a cancel no visits begin. The run ends when the running visits have ended.
package core
