// Package traces exports what turns do to OpenTelemetry (docs/guides/tracing.md, docs/adr/0008). [Tracing] is an [agent.Observer]: one trace per turn,
//
//	POST /v1/turns                    a door's, with whatever the caller's own trace has above it
//	└─ invoke_agent <agent>           the turn; exported once, when it ends
//	   ├─ BeginTurn, CallModel, …     an activity's attempt
//	   │  └─ chat <model>             one request to a provider
//	   ├─ CallTool
//	   │  └─ execute_tool <tool>      one attempt of a call
//	   ├─ await_approval <tool>       from asked to decided
//	   └─ execute_tool <tool>         a call that another agent answers
//	      └─ invoke_agent <agent>     that agent's turn
//
// Workflow code makes no spans, so a replay makes none. Ids on which several processes must agree are derived, not looked up: the trace is
// that of [agent.Observed.Trace] or a hash of the turn's id, and the spans of a turn, its requests and its tool attempts have hashes as
// ids. So every process puts its spans in the right place, and a span that is exported twice has one id.
//
// Content (messages, arguments, results, texts of errors) is exported only as [Config.Content] allows.
package traces
