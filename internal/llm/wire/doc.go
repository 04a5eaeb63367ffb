// Package wire is what all provider clients share.
//
// Below them is one HTTP transport, which bounds silence and size, and one table that turns failures into an [agent.Error]. It judges a
// response before its reader sees it, so that status, Retry-After and a cut connection survive:
//
//	provider client → [Client.HTTP] → judge status → watch silence, count bytes → network
//	                └→ [Call.Failure]: what went wrong, as agent.Code
//
// Above it are conversations that every provider accepts ([PairResults], [OmissionNote]), tool calls and results in their common forms, and
// the reply as it arrives ([Reply]).
package wire
