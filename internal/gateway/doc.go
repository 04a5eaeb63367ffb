// Package gateway is the network door of the system: HTTP (REST and server-sent events) and gRPC over two ports, [Runtime] and [Catalog].
//
//	HTTP client ── middleware.go ── http_*.go ──────┬── Runtime
//	                                                │
//	gRPC client ── grpc*.go ── project*.go ─────────┴── catalog_calls.go ── Catalog
//
// It holds no agent logic and no state of a turn: it decodes strictly (decode.go), names the caller (caller.go), calls the
// runtime, and maps errors (errors.go) and messages (project.go) each in one place. Everything that streams follows the event
// log and never touches a workflow, so a viewer that comes, goes or stalls cannot disturb a turn (docs/design/design.md, "Doors and jobs").
package gateway
