// Package traces exports turns as OpenTelemetry traces (docs/guides/tracing.md, docs/adr/0008). [Tracing] is an [agent.Observer] that makes one trace for
// each turn:
//
//	POST /v1/turns                    the gateway's span, below the caller's span if there is one
//	└─ invoke_agent <agent>           the turn; exported once, when it ends
//	   ├─ BeginTurn, CallModel, …     an activity's attempt
//	   │  └─ chat <model>             one request to a provider
//	   ├─ CallTool
//	   │  └─ execute_tool <tool>      one attempt of a call
//	   ├─ await_approval <tool>       from the question to the decision
//	   └─ execute_tool <tool>         a call that another agent answers
//	      └─ invoke_agent <agent>     the turn of that agent
//
// Workflow code makes no spans, so a replay makes none either. Several processes work on a turn and must use the same ids without asking each other. So
// the trace id is that of [agent.Observed.Trace] or a hash of the turn's id, and the spans of a turn, its requests and its tool attempts have hashes as
// ids. A span that is exported twice has the same id.
//
// Content (messages, arguments, results, texts of errors) is exported only as [Config].Content allows.
package traces
