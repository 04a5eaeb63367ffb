// Package traces tells OpenTelemetry what turns do (docs/tracing.md, docs/adr/0008). [Tracing] is an [agent.Observer]: one trace per turn,
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
// No span is made in workflow code, so a replay makes none. What several processes must agree on is derived, not looked up: the trace is
// that of [agent.Observed.Trace] or a hash of the turn's id, and the spans of the turn, its requests and its tool attempts have ids that
// are hashes of what they are. Whoever works on a turn hangs his spans in the right place, and what is exported twice is the same span.
//
// Content (what was said, arguments, results, words of errors) is exported only as [Config.Content] allows.
package traces
