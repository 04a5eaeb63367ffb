// Package definitions has the activities of DefinedWorkflow: what a run of a stored definition reads, does and writes. The workflow knows node
// ids and outcomes only; what nodes say and give out stays in the store.
package definitions
