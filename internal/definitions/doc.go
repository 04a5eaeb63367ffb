// Package definitions has the use cases of workflow definitions that run: it begins and ends a run, and makes the visits of its nodes. Who drives a
// run (the workflow DefinedWorkflow) knows ids and outcomes of nodes; their texts and outputs stay in the store.
package definitions
