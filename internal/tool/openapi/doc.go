// Package openapi is the toolkit "openapi" with the tool openapi_action, which calls any operation of an OpenAPI 3.0 or 3.1 document.
// Documents come from a URL, cached as their server allows, or from the tool's binding ("catalog:<name>"). Package internal/openapi makes
// the requests; this package fetches documents, chooses auth profiles, sends requests and reads answers. All requests go through
// [tool.HTTP].
//
// A document chooses the server, the method and where parameters go, and is not trusted: a binding may limit the hosts, and credentials
// go only to the hosts of their profile. The egress client masks them in answers.
//
// A call ends with an error, for the runtime to try again, only if nothing with an effect was sent and the call may be repeated.
// Everything else is a failed result. A POST or PATCH whose answer is lost fails with [agent.OutcomeUnknown]. net/http repeats requests
// that carry an Idempotency-Key by itself; such requests are made so that it cannot.
package openapi
