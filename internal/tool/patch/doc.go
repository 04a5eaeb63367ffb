// Package patch is the toolkit "patch" with the tool patch_workflow: what a person wants to happen always, whenever something happens or on a
// schedule becomes a JSON Patch of a workflow definition. [tool.Workflows] keeps the definitions, in this runtime or in an orchestrator ([Orchestrator]).
//
// The owner of the workflow is the one that the call names, otherwise the turn's user if they have a workflow of that tag, otherwise the only owner
// of the tag. A call carries the idempotency key of its invocation: repeating it changes nothing and returns the same result.
package patch
