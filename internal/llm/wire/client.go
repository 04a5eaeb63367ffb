package wire

import "net/http"

// Client sends the requests of one provider client. It is safe for concurrent use.
type Client struct {
	provider string
	cfg      Config
	http     *http.Client
}

// NewClient returns a client with the bounds of cfg. baseURL is the default address, empty for a client that knows its address by itself. An error
// is [agent.CodeInvalid] with the field.
func NewClient(provider, baseURL string, cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults(baseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{provider: provider, cfg: cfg}
	var h http.Client
	if cfg.HTTPClient != nil {
		h = *cfg.HTTPClient
	}
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	h.Transport = &transport{client: c, next: next}
	c.http = &h
	return c, nil
}

// Config returns the configuration with its defaults filled in.
func (c *Client) Config() Config { return c.cfg }

// HTTP returns the HTTP client for requests. They need the context of a [Call].
func (c *Client) HTTP() *http.Client { return c.http }
