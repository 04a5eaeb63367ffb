// Package core decides how a run of a defined workflow goes on: it is pure, and the workflow DefinedWorkflow does what it says.
//
//	         edge fires                    all that is at work and leads here is done
//	idle ──────────────────▶ asked ────────────────────────────────────────────────▶ running
//	  ▲                                                                                 │
//	  └───────────────────────── After: its own edges fire ─────────────────────────────┘
//
// A node that nothing leads to is asked when the run begins. A node that is asked is visited once nothing that is running or asked can
// still lead to it: so a node behind several branches is visited once for all of them, whatever their order, and a branch that a
// condition did not take is not waited for. What fired meanwhile comes into that one visit.
//
// Cycles pass through timers (the definition's check sees to that). The edge that closes a cycle, found by walking from the entries in the
// definition's order, asks for a new visit of the node that it leads to; nothing waits along it. A node is never at work twice at once:
// what fires meanwhile makes one more visit after it.
//
// A failed node, or a cancel, starts no more visits; the run is over when those at work have ended.
package core
