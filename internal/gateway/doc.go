// Package gateway serves the API over HTTP (REST and server-sent events) and gRPC. It calls the system through [Ports], one interface for each
// resource, such as [Turns], [Sessions] and [Documents]. A [Door], such as the WebSocket's, adds further routes.
//
//	HTTP client ── middleware.go ── call.go ────────┐
//	                                                ├── Gateway ── Ports
//	gRPC client ── grpc*.go ── project*.go ─────────┘
//
// It decodes requests strictly (decode.go), identifies the caller (authenticate.go), calls a port, and converts errors (errors.go) and messages
// (project.go). It holds no agent logic and no state of turns. Streams follow the event log and never call a workflow, so clients that leave or stall
// cannot disturb a turn (docs/design/design.md, "Doors and jobs").
package gateway
