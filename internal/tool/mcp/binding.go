package mcp

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

//go:embed properties.json
var properties []byte

// The values of a binding's parameter sampling.
const (
	samplingRefuse = "refuse"
	samplingAllow  = "allow"
)

const streamableHTTP = "streamable_http"

// The bounds of a binding's parameters, and their defaults.
const (
	defaultTimeout  = 60 * time.Second
	maxTimeout      = time.Hour
	defaultMaxBytes = 4 << 20
	minMaxBytes     = 1 << 10
	maxMaxBytes     = 8 << 20
	maxURL          = 2 << 10
)

var prefixPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,24}$`)

// binding holds the parameters of a binding.
type binding struct {
	Server           string `json:"server"`
	URL              string `json:"url"`
	Transport        string `json:"transport"`
	Prefix           string `json:"prefix"`
	TrustAnnotations bool   `json:"trust_annotations"`
	Sampling         string `json:"sampling"`
	TimeoutSec       int    `json:"timeout_sec"`
	MaxResultBytes   int    `json:"max_result_bytes"`

	host string // of URL
}

// parseBinding decodes parameters. Errors are [agent.CodeInvalid] and name the parameter.
func parseBinding(raw json.RawMessage) (*binding, error) {
	b := &binding{}
	if len(raw) > 0 {
		if err := strictjson.Decode(raw, b); err != nil {
			return nil, err
		}
	}
	b.setDefaults()
	switch {
	case b.Server == "" && b.URL == "":
		return nil, agent.Invalid("server", "is required, or url")
	case b.Server != "" && b.URL != "":
		return nil, agent.Invalid("url", "is given besides server: want one of them")
	case b.Transport != streamableHTTP:
		return nil, agent.Invalid("transport", "%.40q: want %s", b.Transport, streamableHTTP)
	case !prefixPattern.MatchString(b.Prefix):
		return nil, agent.Invalid("prefix", "want at most 24 of a-z A-Z 0-9 _ -")
	case b.Sampling != samplingRefuse && b.Sampling != samplingAllow:
		return nil, agent.Invalid("sampling", "%.40q: want %s or %s", b.Sampling, samplingRefuse, samplingAllow)
	case b.TimeoutSec < 1 || b.TimeoutSec > int(maxTimeout/time.Second):
		return nil, agent.Invalid("timeout_sec", "is %d: want 1 to %d", b.TimeoutSec, int(maxTimeout/time.Second))
	case b.MaxResultBytes < minMaxBytes || b.MaxResultBytes > maxMaxBytes:
		return nil, agent.Invalid("max_result_bytes", "is %d: want %d to %d", b.MaxResultBytes, minMaxBytes, maxMaxBytes)
	}
	if b.URL == "" {
		return b, nil
	}
	return b, b.checkURL()
}

// setDefaults sets the defaults, which plans of earlier versions lack.
func (b *binding) setDefaults() {
	if b.Transport == "" {
		b.Transport = streamableHTTP
	}
	if b.Sampling == "" {
		b.Sampling = samplingRefuse
	}
	if b.TimeoutSec == 0 {
		b.TimeoutSec = int(defaultTimeout / time.Second)
	}
	if b.MaxResultBytes == 0 {
		b.MaxResultBytes = defaultMaxBytes
	}
}

// checkURL checks the URL as the egress client would do for every request, and sets host.
func (b *binding) checkURL() error {
	u, err := url.Parse(b.URL)
	switch {
	case len(b.URL) > maxURL:
		return agent.Invalid("url", "is %d bytes, at most %d", len(b.URL), maxURL)
	case err != nil || u.Host == "":
		return agent.Invalid("url", "is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return agent.Invalid("url", "scheme %.20q: want http or https", u.Scheme)
	case u.User != nil:
		return agent.Invalid("url", "has user information; credentials belong in an auth profile")
	case u.Fragment != "":
		return agent.Invalid("url", "has a fragment")
	}
	b.host = u.Host
	return nil
}

// label returns the name of the server for people: the configured name, or the host of the URL.
func (b *binding) label() string {
	if b.Server != "" {
		return b.Server
	}
	return b.host
}

func (b *binding) timeout() time.Duration { return time.Duration(b.TimeoutSec) * time.Second }

// key returns the key of the binding's session. A stdio server is one process for all tenants, unless it may ask a model at a tenant's cost.
func (b *binding) key(scope *agent.ToolScope) (string, error) {
	identity := struct {
		Tenant, Server, URL, Sampling string
		Auth                          []agent.PlanAuth
	}{scope.Tenant, b.Server, b.URL, b.Sampling, scope.Auth}
	if b.Server != "" {
		identity.Auth = nil
		if b.Sampling == samplingRefuse {
			identity.Tenant = ""
		}
	}
	raw, err := json.Marshal(identity)
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, "find MCP session", "encode binding: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
