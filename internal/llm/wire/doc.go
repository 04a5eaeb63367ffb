// Package wire is the HTTP below every provider client: one transport that bounds silence and size, and one table that turns what
// went wrong into an [agent.Error]. Provider packages above it only speak their provider's language.
//
// The transport judges a response before the SDK sees it, so that status, Retry-After and a cut connection are never lost in an
// SDK's own error text:
//
//	provider client → [Client.HTTP] → judge status → watch silence, count bytes → network
//	                └→ [Call.Failure]: what went wrong, in the house's codes
package wire
