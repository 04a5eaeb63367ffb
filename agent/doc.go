// Package agent has the types that all packages of Turnstone share: messages, requests, events, verdicts and plans, and the interfaces that programs
// may implement ([Model], [Tool], [Toolkit], [Middleware], [Channel]).
//
// It imports only the standard library and has no behaviour except validation. Its JSON is used everywhere: in Temporal payloads, in JSONB columns and
// in HTTP bodies.
package agent
