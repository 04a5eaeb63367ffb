// Package definitions runs workflow definitions: it begins and ends runs and makes the visits of their nodes. The workflow DefinedWorkflow drives
// a run. It has only the IDs and outcomes of nodes; their texts and outputs stay in the store.
package definitions
