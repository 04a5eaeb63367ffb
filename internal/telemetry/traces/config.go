package traces

import (
	"cmp"
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

// Content is how much message text is exported.
type Content string

// Values of [Content].
const (
	ContentOff      Content = "off"      // none
	ContentRedacted Content = "redacted" // through [Config.Redact]
	ContentFull     Content = "full"     // all, unchanged
)

// Config configures a [Tracing]. Without an endpoint and Langfuse it exports nothing, but still passes on the trace of a caller.
type Config struct {
	Endpoint string // URL of an OTLP receiver, http or https; for http/protobuf, /v1/traces is added if it is missing
	Protocol string // default http/protobuf
	Headers  string // "k=v,k=v" as in OTEL_EXPORTER_OTLP_HEADERS; secret
	Langfuse Langfuse

	SampleRatio float64 // of the traces that begin here, 0 to 1; a caller decides about its own
	Content     Content // default redacted with Langfuse, else off
	Redact      func(string) string

	ServiceName string // default turnstone
	Version     string // of the service
	Environment string // such as production
	Attributes  map[string]string

	Logger *zap.Logger // nil: silent
	Limits Limits
}

// Langfuse is a Langfuse project that receives the turns.
type Langfuse struct {
	URL       string // such as https://cloud.langfuse.com; empty: no Langfuse
	PublicKey string
	SecretKey string
}

// Limits bound the memory and time of exports. Zero means the default.
type Limits struct {
	Spans        int           // that wait for one receiver; further ones are dropped. Default 4,096
	Bytes        int64         // of the waiting spans, approximately. Default 32 MiB
	Batch        int           // spans in one export. Default 256
	BatchBytes   int64         // in one export, approximately. Default 2 MiB
	BatchDelay   time.Duration // after which a batch is exported although it is not full. Default 2 s
	ExportTime   time.Duration // for one export with its retries. Default 20 s
	ContentBytes int           // of one piece of content. Default 32 KiB
}

const (
	defaultService = "turnstone"
	maxTag         = 128 // bytes of a name or id in an attribute
	maxHeaderPairs = 32
	maxRawContent  = 256 << 10 // bytes; a longer text is left out, because part of a secret at a cut would not be redacted
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
	c.Protocol = cmp.Or(c.Protocol, ProtocolHTTP)
	c.ServiceName = cmp.Or(c.ServiceName, defaultService)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	if c.Content == "" {
		c.Content = ContentOff
		if c.Langfuse.URL != "" && c.Redact != nil {
			c.Content = ContentRedacted
		}
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

// headers returns the parsed Headers.
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

// ParsePairs parses "k=v,k=v" with percent-encoded values, the form of OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES. The error has the field
// and no value.
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

var notInEnvironment = regexp.MustCompile(`[^a-z0-9_-]+`)

// langfuseEnvironment returns an environment that Langfuse accepts: at most 40 of a-z, 0-9, - and _, not starting with "langfuse".
func langfuseEnvironment(name string) string {
	name = notInEnvironment.ReplaceAllString(strings.ToLower(name), "-")
	if strings.HasPrefix(name, "langfuse") {
		name = "env-" + name
	}
	return name[:min(len(name), 40)]
}
