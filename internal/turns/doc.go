// Package turns has the use cases of a turn: accept a request for it, record it, prepare it, call the model, call a tool, ask a person, store the
// result, follow it, cancel it, and start or end what nobody drives. A workflow calls [Turns] as activities, internal/direct calls it in its own
// process, and the doors use [Inbox]. They know no Temporal, SQL or HTTP: what they need of the world are ports, which adapters satisfy without
// importing this package. The composition root asserts that at compile time.
package turns
