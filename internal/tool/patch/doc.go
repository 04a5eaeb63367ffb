// Package patch is the toolkit "patch" with the one tool patch_workflow: what a person asks for "always", "whenever" or "on a
// schedule" becomes a change of a workflow definition, made by a JSON Patch. Who keeps the definitions, this runtime or an orchestrator, is
// behind [tool.Workflows].
//
// The owner of the workflow is the one that the call names; without a name it is the turn's user when they have a workflow of that tag, else
// whoever is the only one to have one. A call carries the key of its invocation, so that a repeated one changes nothing and answers the same.
package patch
