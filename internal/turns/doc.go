// Package turns has the use cases of a turn: accept a request, record the turn, prepare it, call the model, call a tool, ask a person, store the
// result, follow the events, cancel, and start or end abandoned turns. Workflows call the methods of [Turns] as activities, internal/direct calls
// them in its own process, and the APIs and channels use [Inbox]. The package does not depend on Temporal, SQL or HTTP. It declares its
// dependencies as interfaces; adapters implement them without importing this package, which the composition root checks at compile time.
package turns
