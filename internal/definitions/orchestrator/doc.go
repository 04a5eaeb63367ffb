// Package orchestrator forwards the patches of workflow definitions to the API of an orchestrator that keeps and runs them:
//
//	POST {api}/workflows/{tag}:patch   {"operations":[…],"description":"…","workflow_owner":"…","base_version":3}
//	GET  {api}/workflows?tag=…&owner=…
//
// A request carries an Idempotency-Key, the same in all its attempts: when an answer is lost the orchestrator is asked again, and answers as
// the first time. With a base version it carries If-Match as well. What is turned away for the moment (429, 502, 503, 504, a connection
// that fails) is tried again, within bounds; all else is said to whoever asked, in the orchestrator's words.
package orchestrator
