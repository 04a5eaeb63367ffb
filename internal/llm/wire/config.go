package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of a [Config] that names none.
const (
	DefaultTimeout       = 2 * time.Minute
	DefaultMaxReplyBytes = 8 << 20
)

// wireRatio is how many bytes may cross the wire for one byte of reply: each token travels in an envelope of 100 to 300 bytes.
const wireRatio = 16

// Config is what every provider client needs. Its text forms never show the key.
type Config struct {
	APIKey        string
	BaseURL       string        // http or https; empty: the provider's own
	Ambient       bool          // without a key, the credentials of the machine count: set for providers of the configuration alone
	HTTPClient    *http.Client  // its Transport carries the requests; nil: [http.DefaultTransport]. Redirects are never followed
	Timeout       time.Duration // the longest silence between two bytes, not the longest call; 0: [DefaultTimeout]
	HideAnswers   bool          // errors say the status and its class, and nothing else of what the server answered
	MaxReplyBytes int64         // most bytes of text, reasoning and arguments in one reply; 0: [DefaultMaxReplyBytes]
}

// String shows the configuration without the key.
func (c Config) String() string {
	key := "none"
	if c.APIKey != "" {
		key = "set"
	}
	return fmt.Sprintf("{BaseURL:%s APIKey:%s Timeout:%s MaxReplyBytes:%d}", redactURL(c.BaseURL), key, c.Timeout, c.MaxReplyBytes)
}

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults(baseURL string) (Config, error) {
	if c.BaseURL == "" {
		c.BaseURL = baseURL
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxReplyBytes == 0 {
		c.MaxReplyBytes = DefaultMaxReplyBytes
	}
	switch {
	case c.Timeout < 0:
		return c, agent.Invalid("timeout", "is negative: %s", c.Timeout)
	case c.MaxReplyBytes < 0:
		return c, agent.Invalid("max_reply_bytes", "is negative: %d", c.MaxReplyBytes)
	case strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return c, agent.Invalid("api_key", "holds a space, a line break or a character outside ASCII")
	}
	if c.BaseURL == "" { // a client that has its own transport
		return c, nil
	}
	return c, validateBaseURL(c.BaseURL)
}

func validateBaseURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL, which may carry a credential
		}
		return agent.Invalid("base_url", "is no URL: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return agent.Invalid("base_url", "want an absolute http or https URL, got %q", redactURL(s))
	}
	return nil
}

// redactURL keeps scheme, host and path: a base URL may carry a credential in its user part or query.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(no URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
