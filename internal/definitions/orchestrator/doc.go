// Package orchestrator forwards the patches of workflow definitions to the API of an orchestrator that keeps and runs them:
//
//	POST {api}/workflows/{tag}:patch   {"operations":[…],"description":"…","workflow_owner":"…","base_version":3}
//	GET  {api}/workflows?tag=…&owner=…
//
// All attempts of a request carry the same Idempotency-Key, so that a request whose answer was lost can be repeated. A request with a base version
// carries If-Match as well. A request that fails for the moment (429, 502, 503, 504, a failed connection) is repeated, within bounds. Any other
// failure is returned with the orchestrator's message.
package orchestrator
