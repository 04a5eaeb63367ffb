package app

// Telemetry says where traces of turns are sent (docs/guides/tracing.md). The variables are those of OpenTelemetry and Langfuse.
type Telemetry struct {
	OTLPEndpoint string `yaml:"otlp_endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" check:"url" help:"URL of an OpenTelemetry collector for traces; empty: none"`
	OTLPProtocol string `yaml:"otlp_protocol" env:"OTEL_EXPORTER_OTLP_PROTOCOL" default:"http/protobuf" oneof:"http/protobuf grpc" help:"http/protobuf or grpc"`
	OTLPHeaders  Secret `yaml:"otlp_headers" env:"OTEL_EXPORTER_OTLP_HEADERS" help:"name=value,… sent with traces"`
	// SampleRatio is for turns whose caller has not decided it.
	SampleRatio        float64 `yaml:"sample_ratio" default:"1" range:"0..1" help:"share of turns that are traced, 0 to 1"`
	Content            string  `yaml:"content" help:"conversations in traces: off, redacted or full; empty: redacted with Langfuse, else off"`
	ServiceName        string  `yaml:"service_name" env:"OTEL_SERVICE_NAME" default:"turnstone" check:"required" help:"the service's name in traces"`
	Environment        string  `yaml:"environment" help:"deployment environment in traces; empty: none"`
	ResourceAttributes string  `yaml:"resource_attributes" env:"OTEL_RESOURCE_ATTRIBUTES" help:"name=value,… of the service in traces"`
	LangfuseURL        string  `yaml:"langfuse_url" env:"LANGFUSE_HOST" check:"url" help:"URL of Langfuse for traces; empty: none"`
	LangfusePublicKey  string  `yaml:"langfuse_public_key" env:"LANGFUSE_PUBLIC_KEY" help:"public key of the Langfuse project"`
	LangfuseSecretKey  Secret  `yaml:"langfuse_secret_key" env:"LANGFUSE_SECRET_KEY" help:"its secret key"`
}

// On reports whether traces go anywhere.
func (t *Telemetry) On() bool { return t.OTLPEndpoint != "" || t.LangfuseURL != "" }

// How much of a conversation goes into traces.
const (
	ContentOff      = "off"
	ContentRedacted = "redacted"
	ContentFull     = "full"
)

// Metrics bounds the answer of GET /metrics (docs/reference/metrics.md).
type Metrics struct {
	// MaxLabelValues: tenants, agents, models and tools beyond it are counted as "other".
	MaxLabelValues int `yaml:"max_label_values" default:"200" range:"1..10000" help:"tenants, agents, models and tools with series of their own"`
}

func (l *loader) checkTelemetry() {
	t := &l.cfg.Telemetry
	if t.Content != "" {
		l.checkOneOf("telemetry.content", t.Content, ContentOff, ContentRedacted, ContentFull)
	}
	if t.LangfuseURL != "" {
		l.checkText("telemetry.langfuse_public_key", "required", t.LangfusePublicKey)
		l.checkText("telemetry.langfuse_secret_key", "required", t.LangfuseSecretKey.Reveal())
	}
}
