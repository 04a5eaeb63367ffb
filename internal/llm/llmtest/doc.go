// Package llmtest is the conformance suite of [agent.Model]: every provider client passes [Exercise] against a server that speaks its
// provider's real wire format, chunk by chunk, in good times and bad. docs/adr/0002 rests on it.
package llmtest
