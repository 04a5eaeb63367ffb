package wire

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The default bounds of a [Config].
const (
	DefaultTimeout       = 2 * time.Minute
	DefaultMaxReplyBytes = 8 << 20
)

// wireRatio is how many bytes of a response are allowed for one byte of reply: each token comes with 100 to 300 bytes around it.
const wireRatio = 16

// Config is the configuration of a provider client. Formatting and logging it does not show the key.
type Config struct {
	APIKey        string
	BaseURL       string        // http or https; empty: the provider's default
	Ambient       bool          // without a key, use the credentials of the machine; only for configured providers
	HTTPClient    *http.Client  // sends the requests; nil: one with [http.DefaultTransport]. Redirects are never followed
	Timeout       time.Duration // the longest silence between two bytes, not the longest call; 0: [DefaultTimeout]
	HideAnswers   bool          // errors have the status and its kind, and no text of the server
	MaxReplyBytes int64         // of text, reasoning and arguments in one reply; 0: [DefaultMaxReplyBytes]
}

// String returns the configuration without the key.
func (c Config) String() string {
	key := "none"
	if c.APIKey != "" {
		key = "set"
	}
	return fmt.Sprintf("{BaseURL:%s APIKey:%s Timeout:%s MaxReplyBytes:%d}", redactURL(c.BaseURL), key, c.Timeout, c.MaxReplyBytes)
}

// GoString returns String, for %#v.
func (c Config) GoString() string { return c.String() }

// LogValue returns String, for slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults(baseURL string) (Config, error) {
	c.BaseURL = cmp.Or(c.BaseURL, baseURL)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxReplyBytes = cmp.Or(c.MaxReplyBytes, DefaultMaxReplyBytes)
	switch {
	case c.Timeout < 0:
		return c, agent.Invalid("timeout", "is negative: %s", c.Timeout)
	case c.MaxReplyBytes < 0:
		return c, agent.Invalid("max_reply_bytes", "is negative: %d", c.MaxReplyBytes)
	case strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return c, agent.Invalid("api_key", "holds a space, a line break or a character outside ASCII")
	}
	if c.BaseURL == "" { // a client that knows its address by itself
		return c, nil
	}
	return c, validateBaseURL(c.BaseURL)
}

func validateBaseURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL, which may contain a credential
		}
		return agent.Invalid("base_url", "is no URL: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return agent.Invalid("base_url", "want an absolute http or https URL, got %q", redactURL(s))
	}
	return nil
}

// redactURL returns scheme, host and path of a URL. Its user part and query may contain a credential.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(no URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
