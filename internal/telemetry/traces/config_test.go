package traces_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
)

func TestOpenValidatesItsConfig(t *testing.T) {
	pass := "pass" + "word-1"
	for field, cfg := range map[string][]traces.Config{
		"telemetry.otlp_endpoint": {
			{Endpoint: "localhost:4317"},
			{Endpoint: "ftp://x"},
			{Endpoint: "http://"},
			{Endpoint: "http://u:" + pass + "@x"},
			{Endpoint: "http://x?key=" + pass},
			{Endpoint: "http://x\x7f" + pass},
			{Endpoint: "http://:4318"},
		},
		"telemetry.otlp_headers": {{Endpoint: "http://x", Headers: "novalue"}, {Endpoint: "http://x", Headers: "a=%zz" + pass}, {Endpoint: "http://x", Headers: "a b=" + pass}, {Endpoint: "http://x", Headers: "a=%0a" + pass}, {Endpoint: "http://x", Headers: "=" + pass}, {Endpoint: "http://x", Headers: strings.Repeat("a=b,", 3) + manyPairs()}},
		"telemetry.langfuse_url": {{Langfuse: traces.Langfuse{URL: "cloud.langfuse.com"}}},
	} {
		for i := range cfg {
			_, err := traces.Open(t.Context(), cfg[i])
			e, ok := errors.AsType[*agent.Error](err)
			require.True(t, ok, "%s %d: %v", field, i, err)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, field, e.Field, "%d: %v", i, err)
			require.NotContains(t, err.Error(), pass)
		}
	}
	tr, err := traces.Open(t.Context(), traces.Config{Langfuse: traces.Langfuse{SecretKey: "meant for another program"}})
	require.NoError(t, err)
	require.Empty(t, tr.Counts())
}

func manyPairs() string {
	var b strings.Builder
	for i := range 40 {
		b.WriteString("k" + strings.Repeat("x", i) + "=v,")
	}
	return b.String()
}

func TestPairs(t *testing.T) {
	got, err := traces.ParsePairs("f", " a = 1 ,b=x%3Dy%2Cz,c=k=v,,d=")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "x=y,z", "c": "k=v", "d": ""}, got)
}

func FuzzPairs(f *testing.F) {
	for _, s := range []string{"", "a=b", "a=b,c=%20", "=,=", "a=%", strings.Repeat("a=b,", 50)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := traces.ParsePairs("f", s)
		if err == nil && len(got) > 32 {
			t.Fatalf("%d pairs", len(got))
		}
	})
}
