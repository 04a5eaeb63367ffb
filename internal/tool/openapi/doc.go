// Package openapi is the toolkit "openapi" with the one tool openapi_action: it calls any operation of an OpenAPI 3.0 or 3.1
// document. Documents come from a URL, kept as their server allows, or from the tool's binding ("catalog:<name>"). What an operation's request
// looks like is internal/openapi's business; this package fetches, authorises, sends and answers. All requests, those for documents and for
// the files that they refer to included, go through [tool.HTTP].
//
// A document chooses the server, the method and where parameters go, so it is hostile until proven otherwise: hosts may be limited by the
// binding, credentials go to the hosts of their profile alone, and are taken out of what comes back.
//
// What is a failed result and what an error: an error is for the runtime, to try again; it is used only while nothing has been sent that may
// have an effect, and the call may be repeated. A POST or PATCH of which the answer is lost fails with [agent.OutcomeUnknown]. net/http
// repeats by itself what carries an Idempotency-Key; such requests are made so that it cannot.
package openapi
