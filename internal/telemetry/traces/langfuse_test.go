package traces_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

// docs/guides/tracing.md has a table of the attributes that Langfuse reads.
func TestLangfuse(t *testing.T) {
	r, other := tracetest.Receive(t), tracetest.Receive(t)
	secret := "sk-" + "lf-1"
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=leaked,x-leaked=1") // is not for Langfuse
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/elsewhere")
	tr := open(t, traces.Config{
		Endpoint: other.HTTP, Headers: "authorization=collectors", Content: traces.ContentFull, Version: "1.2.3", Environment: "Prod EU",
		Langfuse: traces.Langfuse{URL: r.HTTP + "/", PublicKey: "pk-lf-1", SecretKey: secret},
	})
	o := observed("t-1")
	o.Trace = caller
	playTurn(o, plainTexts(), always(tr))
	flush(t, tr)

	q := r.Requests()[0]
	require.Equal(t, "/api/public/otel/v1/traces", q.Path)
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("pk-lf-1:"+secret)), q.Header.Get("Authorization"))
	require.Equal(t, "4", q.Header.Get("X-Langfuse-Ingestion-Version"))
	require.Empty(t, q.Header.Get("X-Leaked"))
	require.Equal(t, "application/x-protobuf", q.Header.Get("Content-Type"))
	require.Equal(t, "gzip", q.Header.Get("Content-Encoding"))
	require.Equal(t, "collectors", other.Requests()[0].Header.Get("Authorization"), "each receiver has its own credentials")
	require.Len(t, other.Spans(), len(r.Spans()))

	spans := r.Spans()
	for i := range spans {
		a := spans[i].Attributes
		require.Contains(t, []any{"agent", "generation", "tool", "span"}, a["langfuse.observation.type"], spans[i].Name)
		require.Equal(t, "u-17", a["user.id"])
		require.Equal(t, "1.2.3", a["langfuse.release"])
		require.Equal(t, "0102abcdef01", a["langfuse.version"])
		require.Equal(t, "prod-eu", a["langfuse.environment"])
		if a["turnstone.turn_id"] != "t-1" { // the turn of another agent does not change the trace
			for _, key := range []string{
				"session.id", "gen_ai.conversation.id", "langfuse.trace.name", "langfuse.trace.tags", "langfuse.trace.input",
				"langfuse.trace.output", "langfuse.trace.metadata.agent_instance_id", "langfuse.internal.as_root",
			} {
				require.NotContains(t, a, key, spans[i].Name)
			}
			require.Equal(t, "acme/analyst@3", a["langfuse.observation.metadata.agent_instance_id"])
			continue
		}
		require.Equal(t, "chat-1", a["session.id"])
		require.Equal(t, "analyst", a["langfuse.trace.name"])
		require.Equal(t, []any{"agent:analyst", "tenant:acme", "channel:http", "mode:durable"}, a["langfuse.trace.tags"])
		require.Equal(t, "acme/analyst@3", a["langfuse.trace.metadata.agent_instance_id"])
		require.Equal(t, "acme", a["langfuse.trace.metadata.tenant"])
		require.Equal(t, "http", a["langfuse.trace.metadata.channel"])
	}

	turn := find(t, spans, "invoke_agent analyst", nil).Attributes
	require.Equal(t, "agent", turn["langfuse.observation.type"])
	require.Equal(t, true, turn["langfuse.internal.as_root"], "Langfuse does not have the caller's span")
	require.Equal(t, "how many orders", turn["langfuse.trace.input"])
	require.Equal(t, "seven", turn["langfuse.trace.output"])
	require.Equal(t, "how many orders", turn["langfuse.observation.input"])
	require.Equal(t, "seven", turn["langfuse.observation.output"])
	require.Equal(t, "rule acme/main/numbers", turn["langfuse.trace.metadata.route"])
	for key := range turn {
		require.NotContains(t, key, "gen_ai.usage", "Langfuse would count it twice")
	}

	chat := find(t, spans, "chat gpt-x", func(s *tracetest.Span) bool { return s.Attributes["turnstone.step"] == int64(2) })
	a := chat.Attributes
	require.Equal(t, "SPAN_KIND_CLIENT", chat.Kind.String())
	require.Equal(t, "generation", a["langfuse.observation.type"])
	require.Equal(t, "gpt-x-0301", a["langfuse.observation.model.name"])
	require.JSONEq(t, `{"temperature":0.25,"max_tokens":500}`, a["langfuse.observation.model.parameters"].(string))
	require.JSONEq(t, `{"input":40,"input_cached_tokens":60,"output":15,"output_reasoning_tokens":5,"total":120}`,
		a["langfuse.observation.usage_details"].(string))
	require.JSONEq(t, `{"total":0.00125}`, a["langfuse.observation.cost_details"].(string))
	first, err := time.Parse(time.RFC3339Nano, a["langfuse.observation.completion_start_time"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, chat.Start.Add(40*time.Millisecond), first, time.Millisecond)
	require.Equal(t, "analyst", a["langfuse.observation.prompt.name"])
	require.Equal(t, int64(0x0102), a["langfuse.observation.prompt.version"])
	require.JSONEq(t, `[{"role":"system","parts":[{"type":"text","content":"be brief"}]},
		{"role":"user","parts":[{"type":"text","content":"how many orders"}]}]`, a["langfuse.observation.input"].(string))
	require.JSONEq(t, `[{"role":"assistant","finish_reason":"stop","parts":[{"type":"reasoning","content":"let me count"},
		{"type":"text","content":"seven"}]}]`, a["langfuse.observation.output"].(string))

	// The names of the semantic conventions, for other receivers.
	require.Equal(t, "chat", a["gen_ai.operation.name"])
	require.Equal(t, "openai", a["gen_ai.provider.name"])
	require.Equal(t, "gpt-x", a["gen_ai.request.model"])
	require.Equal(t, "gpt-x-0301", a["gen_ai.response.model"])
	require.InEpsilon(t, 0.25, a["gen_ai.request.temperature"], 0)
	require.Equal(t, int64(500), a["gen_ai.request.max_tokens"])
	require.Equal(t, []any{"stop"}, a["gen_ai.response.finish_reasons"])
	require.InEpsilon(t, 0.04, a["gen_ai.response.time_to_first_chunk"], 1e-9)
	require.Equal(t, int64(100), a["gen_ai.usage.input_tokens"])
	require.Equal(t, int64(20), a["gen_ai.usage.output_tokens"])
	require.Equal(t, int64(60), a["gen_ai.usage.cache_read.input_tokens"])
	require.Equal(t, int64(5), a["gen_ai.usage.reasoning.output_tokens"])
	require.Equal(t, "llm.example.com", a["server.address"])
	require.Equal(t, "chat-1", a["gen_ai.conversation.id"])
	require.Equal(t, "analyst", a["gen_ai.agent.name"])
	require.Equal(t, "acme/analyst@3", a["gen_ai.agent.id"])

	tool := find(t, spans, "execute_tool count", func(s *tracetest.Span) bool { return s.Attributes["gen_ai.tool.call.id"] == "a" }).Attributes
	require.Equal(t, "tool", tool["langfuse.observation.type"])
	require.Equal(t, "count", tool["gen_ai.tool.name"])
	require.Equal(t, "function", tool["gen_ai.tool.type"])
	require.Equal(t, "Counts rows", tool["gen_ai.tool.description"])
	require.JSONEq(t, `{"table":"orders"}`, tool["langfuse.observation.input"].(string))
	require.JSONEq(t, `{"rows":7}`, tool["langfuse.observation.output"].(string))
	require.JSONEq(t, `{"table":"orders"}`, tool["gen_ai.tool.call.arguments"].(string))
	require.JSONEq(t, `{"rows":7}`, tool["gen_ai.tool.call.result"].(string))
	failed := find(t, spans, "execute_tool count", func(s *tracetest.Span) bool { return s.Error }).Attributes
	require.Equal(t, "ERROR", failed["langfuse.observation.level"])
	require.Equal(t, "call tool: disk full", failed["langfuse.observation.status_message"])
}

// jsonOf returns the value of a JSON attribute.
func jsonOf(t *testing.T, text any) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text.(string)), &v))
	return v
}
