// Package gateway serves the API over HTTP (REST and server-sent events) and gRPC. What it serves comes through [Ports]: one interface for each
// group of calls, such as [Turns], [Sessions] and [Documents]. Other doors, such as the WebSocket's, add routes of their own ([Door]).
//
//	HTTP client ── middleware.go ── http_*.go ──────┐
//	                                                ├── Call ── Ports
//	gRPC client ── grpc*.go ── project*.go ─────────┘
//
// It holds no agent logic and no state of a turn: it decodes strictly (decode.go), names the caller (caller.go), calls a port, and maps errors
// (errors.go) and messages (project.go) each in one place. Everything that streams follows the event log and never touches a workflow, so a viewer
// that comes, goes or stalls cannot disturb a turn (docs/design/design.md, "Doors and jobs").
package gateway
