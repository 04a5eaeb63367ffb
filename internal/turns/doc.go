// Package turns has the use cases of a turn: record it, prepare it, call the model, call a tool, ask a person, store the result, cancel. A workflow
// drives them as activities, internal/direct calls them in its own process, and the doors record turns by them. They know no Temporal, SQL or HTTP:
// what they need of the world are the ports in ports.go, which adapters satisfy without importing this package. The composition root asserts that
// at compile time.
package turns
