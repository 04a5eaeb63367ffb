package app

// Telemetry sends traces of turns (docs/tracing.md). The variables are OpenTelemetry's own and Langfuse's.
type Telemetry struct {
	// OTLPEndpoint is the URL of an OpenTelemetry collector, http://collector:4318 say. Default empty: traces go nowhere, unless Langfuse is set.
	OTLPEndpoint string `yaml:"otlp_endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"URL of an OpenTelemetry collector for traces; empty: none"`
	// OTLPProtocol is http/protobuf (the default) or grpc.
	OTLPProtocol string `yaml:"otlp_protocol" env:"OTEL_EXPORTER_OTLP_PROTOCOL" help:"http/protobuf or grpc"`
	// OTLPHeaders go with every export: name=value,… Default empty.
	OTLPHeaders Secret `yaml:"otlp_headers" env:"OTEL_EXPORTER_OTLP_HEADERS" help:"name=value,… sent with traces"`
	// SampleRatio is the share of turns that are traced, where whoever asked has not decided it. Default 1.
	SampleRatio float64 `yaml:"sample_ratio" help:"share of turns that are traced, 0 to 1"`
	// Content says what of a conversation goes into traces: off, redacted or full. Default empty: redacted where LangfuseURL is set, else off.
	Content string `yaml:"content" help:"conversations in traces: off, redacted or full; empty: redacted with Langfuse, else off"`
	// ServiceName default "turnstone".
	ServiceName string `yaml:"service_name" env:"OTEL_SERVICE_NAME" help:"the service's name in traces"`
	// Environment default empty: production, staging, …
	Environment string `yaml:"environment" help:"deployment environment in traces; empty: none"`
	// ResourceAttributes are further ones: name=value,… Default empty.
	ResourceAttributes string `yaml:"resource_attributes" env:"OTEL_RESOURCE_ATTRIBUTES" help:"name=value,… of the service in traces"`
	// LangfuseURL, with its keys, has traces sent to Langfuse besides. Default empty: they are not.
	LangfuseURL       string `yaml:"langfuse_url" env:"LANGFUSE_HOST" help:"URL of Langfuse for traces; empty: none"`
	LangfusePublicKey string `yaml:"langfuse_public_key" env:"LANGFUSE_PUBLIC_KEY" help:"public key of the Langfuse project"`
	LangfuseSecretKey Secret `yaml:"langfuse_secret_key" env:"LANGFUSE_SECRET_KEY" help:"its secret key"`
}

// On reports whether traces go anywhere.
func (t *Telemetry) On() bool { return t.OTLPEndpoint != "" || t.LangfuseURL != "" }

// The protocols of traces.
const (
	OTLPHTTP = "http/protobuf"
	OTLPGRPC = "grpc"
)

// What of a conversation goes into traces.
const (
	ContentOff      = "off"
	ContentRedacted = "redacted"
	ContentFull     = "full"
)

// Metrics bounds what GET /metrics has (docs/metrics.md).
type Metrics struct {
	// MaxLabelValues: so many tenants, agents, models and tools have series of their own; those beyond are counted as "other". Default 200.
	MaxLabelValues int `yaml:"max_label_values" help:"tenants, agents, models and tools with series of their own"`
}

func (l *loader) telemetry() {
	t := &l.cfg.Telemetry
	l.webAddress("telemetry.otlp_endpoint", t.OTLPEndpoint)
	l.oneOf("telemetry.otlp_protocol", t.OTLPProtocol, OTLPHTTP, OTLPGRPC)
	between(l, "telemetry.sample_ratio", t.SampleRatio, 0, 1)
	if t.Content != "" {
		l.oneOf("telemetry.content", t.Content, ContentOff, ContentRedacted, ContentFull)
	}
	l.required("telemetry.service_name", t.ServiceName)
	l.webAddress("telemetry.langfuse_url", t.LangfuseURL)
	if t.LangfuseURL != "" {
		l.required("telemetry.langfuse_public_key", t.LangfusePublicKey)
		l.required("telemetry.langfuse_secret_key", t.LangfuseSecretKey.Reveal())
	}
	between(l, "metrics.max_label_values", l.cfg.Metrics.MaxLabelValues, 1, 10_000)
}
