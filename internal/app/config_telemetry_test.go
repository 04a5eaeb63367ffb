package app_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

// The variables that OpenTelemetry and Langfuse have are enough, and their secrets are shown to nobody.
func TestTelemetryFromTheEnvironment(t *testing.T) {
	cfg, err := app.Load(sources(t, "", []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_HEADERS=x-key=hunter2", "OTEL_SERVICE_NAME=desk",
		"LANGFUSE_HOST=https://langfuse.example", "LANGFUSE_PUBLIC_KEY=pk", "LANGFUSE_SECRET_KEY=hunter2",
	}))
	require.NoError(t, err)
	require.Equal(t, app.Telemetry{
		OTLPEndpoint: "http://collector:4317", OTLPProtocol: "grpc", OTLPHeaders: "x-key=hunter2", SampleRatio: 1,
		ServiceName: "desk", LangfuseURL: "https://langfuse.example", LangfusePublicKey: "pk", LangfuseSecretKey: "hunter2",
	}, cfg.Telemetry)
	require.True(t, cfg.Telemetry.On())
	require.False(t, new(app.Telemetry).On())
	var out bytes.Buffer
	require.NoError(t, cfg.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
}

func TestFaultsOfTelemetry(t *testing.T) {
	for text, says := range map[string]string{
		"telemetry: {otlp_endpoint: 'collector:4318'}":                       "telemetry.otlp_endpoint",
		"telemetry: {otlp_protocol: http/json}":                              "telemetry.otlp_protocol",
		"telemetry: {sample_ratio: 1.5}":                                     "telemetry.sample_ratio",
		"telemetry: {content: some}":                                         "telemetry.content",
		"telemetry: {service_name: ''}":                                      "telemetry.service_name",
		"telemetry: {langfuse_url: 'https://x', langfuse_secret_key: s}":     "telemetry.langfuse_public_key",
		"telemetry: {langfuse_url: 'https://x', langfuse_public_key: p}":     "telemetry.langfuse_secret_key",
		"telemetry: {langfuse_url: 'https://u:p@x', langfuse_public_key: p}": "telemetry.langfuse_url",
		"metrics: {max_label_values: 0}":                                     "metrics.max_label_values",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := app.Load(sources(t, text, nil))
			require.ErrorContains(t, err, says)
		})
	}
}
