// Package agent is the vocabulary of Turnstone: the messages, requests, events, verdicts and plans that every other package
// speaks, and the interfaces that outsiders implement ([Model], [Tool], [Toolkit], [Middleware], [Channel]).
//
// It imports the standard library only and holds no behaviour beyond validation. Its JSON, plain snake_case, is the one wire
// form of the system: the Temporal payload, the JSONB row and the HTTP body.
package agent
