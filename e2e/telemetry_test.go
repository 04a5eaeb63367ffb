package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// traced sends what a service does to a receiver.
func traced(to *tracetest.Receiver, content string) func(*app.Config) {
	return func(c *app.Config) { c.Telemetry.OTLPEndpoint, c.Telemetry.Content = to.HTTP, content }
}

// together asks for several tool calls at once.
func together(fragments ...llmtest.Fragment) turnstonetest.Reply {
	return func(x *turnstonetest.Exchange) {
		var events []llmtest.Event
		for i := range fragments {
			fragments[i].Index = i
			events = append(events, llmtest.Event{Call: &fragments[i]})
		}
		x.Send(llmtest.OpenAI{}.Frames(llmtest.Reply{
			Events: events, Usage: agent.Usage{InputTokens: 100, OutputTokens: 20}, Finish: agent.FinishToolCalls,
		})...)
	}
}

// TestOneTraceOfATurn: a provider that refuses once, two tools side by side, and a sub-agent with a tool of its own, asked for by a caller who is in a trace
// already: one tree, each thing in it once, nothing more of it by a replay. docs/guides/tracing.md shows this one.
func TestOneTraceOfATurn(t *testing.T) {
	t.Parallel()
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		t.Run(string(mode), func(t *testing.T) {
			receiver := tracetest.Receive(t)
			fetch := func(to string) string {
				return `{"session_id":"s","pipeline":[{"step":"http_request","url":"` + turnstonetest.FlightsURL(t) + `/flights","method":"GET",` +
					`"params":{"origin":"NYC","dest":"` + to + `"}},{"step":"table_sort","field":"price"},{"step":"top_k","k":3}]}`
			}
			helper := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", fetch("SFO")), turnstonetest.Say("San Francisco is cheaper"))
			provider := turnstonetest.NewModel(t,
				turnstonetest.Refuse(http.StatusServiceUnavailable, ""),
				together(llmtest.Fragment{ID: "to_lax", Name: "execute_pipeline", Args: fetch("LAX")}, llmtest.Fragment{ID: "to_sfo", Name: "execute_pipeline", Args: fetch("SFO")}),
				asks("second_opinion", "delegate_to_agent", `{"agent_type":"langchain_agent","inputs":{"message":"which is cheaper?"}}`),
				turnstonetest.Say("Fly to San Francisco."))
			s := start(t, traced(receiver, "off"), nothingRemembered)
			s.worksFor(provider, "[pipeline]\ndelegates: [helper]\nmiddleware: [{name: model_retry, options: {initial_delay: 0.01}}]",
				strings.NewReplacer("clerk", "helper").Replace(clerk("You compare.", "m", llmtest.OpenAI{}.BaseURL(helper.URL()), "[pipeline]")))

			caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1: 0xca, 15: byte(len(mode))}, SpanID: trace.SpanID{7: 0x11}, TraceFlags: trace.FlagsSampled})
			asking, err := client.New(client.Config{Server: "http://" + s.HTTPAddr(), HTTP: &http.Client{Transport: inTrace{caller}}})
			require.NoError(t, err)
			receipt, err := asking.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "where to?", SessionID: "s", Mode: mode})
			require.NoError(t, err)
			out, _ := s.follow(t.Context(), receipt.TurnID)
			require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
			s.closed(receipt.TurnID)
			s.replay("", receipt.TurnID.WorkflowID(), "")

			spans := receiver.AwaitTrace(t, string(receipt.TurnID))
			t.Logf("\n%s", tracetest.Timeline(spans, "error.type", "gen_ai.usage.output_tokens", "gen_ai.tool.call.id"))
			for _, name := range []string{"invoke_agent clerk", "chat m", "execute_tool execute_pipeline"} {
				shown, err := json.MarshalIndent(tracetest.Named(spans, name)[0].Attributes, "", "  ")
				require.NoError(t, err)
				t.Logf("%s\n%s", name, shown)
			}
			require.Equal(t, caller.TraceID().String(), spans[0].Trace)
			seen := map[string]int{}
			for i := range spans {
				seen[spans[i].ID]++
			}
			for id, n := range seen {
				require.Equal(t, 1, n, "span %s", id)
			}
			for name, n := range map[string]int{
				"POST /v1/turns": 1, "invoke_agent clerk": 1, "invoke_agent helper": 1, "chat m": 6, "execute_tool execute_pipeline": 3,
				"execute_tool delegate_to_agent": 1,
			} {
				require.Len(t, tracetest.Named(spans, name), n, "%s in\n%s", name, tracetest.Tree(spans))
			}
			require.NotContains(t, fmt.Sprint(spans), "San Francisco", "content is off")
			require.NotContains(t, fmt.Sprint(spans), "where to?")
		})
	}
}

// inTrace has requests say which trace they belong to.
type inTrace struct{ span trace.SpanContext }

func (w inTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(r.Context(), w.span), propagation.HeaderCarrier(r.Header))
	return http.DefaultTransport.RoundTrip(r)
}
