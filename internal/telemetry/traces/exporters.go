package traces

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	pathTraces   = "/v1/traces"
	pathLangfuse = "/api/public/otel/v1/traces"
	// ingestionVersion is the version of Langfuse's data model. Newer views of Langfuse show spans of this version without delay.
	ingestionHeader, ingestionVersion = "x-langfuse-ingestion-version", "4"

	initialRetryInterval, maxRetryInterval = 500 * time.Millisecond, 5 * time.Second
)

// otlpExporter returns the exporter for Endpoint. It sets all options, because the SDK reads unset ones from the environment.
func (c *Config) otlpExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	u, err := parseEndpoint("telemetry.otlp_endpoint", c.Endpoint)
	if err != nil {
		return nil, err
	}
	headers, err := c.headers()
	if err != nil {
		return nil, err
	}
	if c.Protocol == ProtocolGRPC {
		e, err := otlptracegrpc.New(ctx,
			otlptracegrpc.WithEndpointURL(u.Scheme+"://"+u.Host),
			otlptracegrpc.WithHeaders(headers),
			otlptracegrpc.WithCompressor("gzip"),
			otlptracegrpc.WithTimeout(c.Limits.ExportTime),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
				Enabled: true, InitialInterval: initialRetryInterval, MaxInterval: maxRetryInterval, MaxElapsedTime: c.Limits.ExportTime,
			}))
		if err != nil {
			return nil, fmt.Errorf("open traces exporter: %w", err)
		}
		return e, nil
	}
	if u.Path = strings.TrimRight(u.Path, "/"); !strings.HasSuffix(u.Path, pathTraces) {
		u.Path += pathTraces
	}
	return c.httpExporter(ctx, u.String(), headers)
}

// langfuseExporter returns the exporter for Langfuse.
func (c *Config) langfuseExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	u, err := parseEndpoint("telemetry.langfuse_url", c.Langfuse.URL)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), pathTraces), "/api/public/otel") + pathLangfuse
	keys := base64.StdEncoding.EncodeToString([]byte(c.Langfuse.PublicKey + ":" + c.Langfuse.SecretKey))
	var options []otlptracehttp.Option
	if u.Scheme == "https" {
		options = append(options, otlptracehttp.WithTLSClientConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	return c.httpExporter(ctx, u.String(), map[string]string{"Authorization": "Basic " + keys, ingestionHeader: ingestionVersion}, options...)
}

func (c *Config) httpExporter(
	ctx context.Context, url string, headers map[string]string, more ...otlptracehttp.Option,
) (sdktrace.SpanExporter, error) {
	e, err := otlptracehttp.New(ctx, append(more,
		otlptracehttp.WithEndpointURL(url),
		otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithTimeout(c.Limits.ExportTime),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: initialRetryInterval, MaxInterval: maxRetryInterval, MaxElapsedTime: c.Limits.ExportTime,
		}))...)
	if err != nil {
		return nil, fmt.Errorf("open traces exporter: %w", err)
	}
	return e, nil
}
