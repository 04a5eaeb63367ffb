// Package wire is shared by all provider clients. It has an HTTP transport that bounds silence and size, and one table from failures to
// [agent.Error]. The transport checks a response before the provider client reads it, so that no client loses the status, Retry-After or a broken
// connection:
//
//	provider client → [Client.HTTP] → check status → watch silence, count bytes → network
//	                └→ [Call.Failure]: why the call failed, with an agent.Code
//
// The package also makes conversations that every provider accepts ([PairResults], [OmissionNote]), has the common forms of tool calls and results,
// and collects a reply from its fragments ([Reply]).
package wire
