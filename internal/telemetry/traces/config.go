package traces

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
)

// Protocols of an endpoint.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// Content says how much message text is exported.
type Content string

// Values of [Content].
const (
	ContentOff      Content = "off"      // none
	ContentRedacted Content = "redacted" // through [Config.Redact]
	ContentFull     Content = "full"     // as it is
)

// Config configures a [Tracing]. Without an endpoint and without Langfuse it records nothing and passes a caller's trace on.
type Config struct {
	Endpoint string // URL of an OTLP receiver, http or https; for http/protobuf, /v1/traces is added where it is missing
	Protocol string // default http/protobuf
	Headers  string // "k=v,k=v" as in OTEL_EXPORTER_OTLP_HEADERS; secret
	Langfuse Langfuse

	SampleRatio float64 // of the traces that begin here, 0 to 1; those of a caller are sampled as he says
	Content     Content // default redacted with Langfuse, else off
	Redact      func(string) string

	ServiceName string // default turnstone
	Version     string // of the service
	Environment string // where it runs: production, …
	Attributes  map[string]string

	Logger *zap.Logger // nil: silent
	Limits Limits
}

// Langfuse is a Langfuse project that receives the turns.
type Langfuse struct {
	URL       string // e.g. https://cloud.langfuse.com; empty: none
	PublicKey string
	SecretKey string
}

// Limits bound what tracing may hold. Zero means the default.
type Limits struct {
	Spans        int           // waiting for one receiver; more are dropped. Default 4,096
	Bytes        int64         // of what they hold, about. Default 32 MiB
	Batch        int           // spans in one export. Default 256
	BatchBytes   int64         // in one export, about. Default 2 MiB
	BatchDelay   time.Duration // until a batch that is not full goes. Default 2 s
	ExportTime   time.Duration // for one export, with its retries. Default 20 s
	ContentBytes int           // of one piece of content. Default 32 KiB
}

const (
	defaultService = "turnstone"
	maxTag         = 128 // bytes of a name or id in an attribute
	maxHeaderPairs = 32
	maxRawContent  = 256 << 10 // a text that is longer is left out, not cut: what is cut unread could leave half a secret
)

func setDefault[N ~int | ~int64](v *N, d N) {
	if *v <= 0 {
		*v = d
	}
}

func (l *Limits) setDefaults() {
	setDefault(&l.Spans, 4096)
	setDefault(&l.Bytes, 32<<20)
	setDefault(&l.Batch, 256)
	setDefault(&l.BatchBytes, 2<<20)
	setDefault(&l.BatchDelay, 2*time.Second)
	setDefault(&l.ExportTime, 20*time.Second)
	setDefault(&l.ContentBytes, 32<<10)
	l.Batch = min(l.Batch, l.Spans)
}

func (c *Config) setDefaults() {
	if c.Protocol == "" {
		c.Protocol = ProtocolHTTP
	}
	if c.Content == "" {
		c.Content = ContentOff
		if c.Langfuse.URL != "" && c.Redact != nil {
			c.Content = ContentRedacted
		}
	}
	if c.ServiceName == "" {
		c.ServiceName = defaultService
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Limits.setDefaults()
}

// parseEndpoint parses the URL of a receiver. Its error does not quote the URL, which may contain credentials.
func parseEndpoint(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, agent.Invalid(field, "want a URL with scheme and host, such as http://localhost:4318")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, agent.Invalid(field, "want the scheme http or https, got %.20q", u.Scheme)
	case u.User != nil:
		return nil, agent.Invalid(field, "holds a user or password: credentials belong in the headers")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, agent.Invalid(field, "has a query or a fragment")
	}
	return u, nil
}

func (c *Config) headers() (map[string]string, error) {
	m, err := ParsePairs("telemetry.otlp_headers", c.Headers)
	if err != nil {
		return nil, err
	}
	for k, v := range m {
		if !httpguts.ValidHeaderFieldName(k) {
			return nil, agent.Invalid("telemetry.otlp_headers", "%.60q is no name of a header", k)
		}
		if !httpguts.ValidHeaderFieldValue(v) {
			return nil, agent.Invalid("telemetry.otlp_headers", "the value of %.60q cannot be sent", k)
		}
	}
	return m, nil
}

// ParsePairs parses "k=v,k=v" with percent-encoded values, as OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES are written. The
// error names the field and no value.
func ParsePairs(field, text string) (map[string]string, error) {
	pairs := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, agent.Invalid(field, "entry %d is not name=value", len(pairs)+1)
		}
		v, err := url.PathUnescape(strings.TrimSpace(v))
		if err != nil {
			return nil, agent.Invalid(field, "the value of %.60q is wrongly percent-encoded", k)
		}
		if pairs[k] = v; len(pairs) > maxHeaderPairs {
			return nil, agent.Invalid(field, "has more than %d entries", maxHeaderPairs)
		}
	}
	return pairs, nil
}

var notEnvironment = regexp.MustCompile(`[^a-z0-9_-]+`)

// langfuseEnvironment returns an environment in the form that Langfuse accepts: at most 40 of a-z 0-9 - _, not beginning with "langfuse".
func langfuseEnvironment(name string) string {
	name = notEnvironment.ReplaceAllString(strings.ToLower(name), "-")
	if strings.HasPrefix(name, "langfuse") {
		name = "env-" + name
	}
	return name[:min(len(name), 40)]
}
