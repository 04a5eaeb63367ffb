package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Health is what GET /health says: the status ok, degraded, failing or draining, and what of the dependencies is how.
type Health struct {
	Status       string       `json:"status"`
	Version      string       `json:"version,omitempty"` // for those who may do health.read
	Dependencies []Dependency `json:"dependencies"`
	ServerTime   time.Time    `json:"-"` // by the server's clock, to the second; zero: it does not say
	CertUntil    time.Time    `json:"-"` // when its certificate ends; zero: without TLS
}

// Dependency is one thing that turns need, or would like to have.
type Dependency = gateway.DependencyBody

// wantsTLS is what net/http answers to plain HTTP on a port that speaks TLS.
const wantsTLS = "HTTP request to an HTTPS server"

// maxHealth bounds the answer of a health check, which may be anybody's.
const maxHealth = 1 << 20

// Health asks the server how it is. That it is not well is an answer and no error; what is no answer of Turnstone's is
// [agent.CodeUnavailable].
func (c *Client) Health(ctx context.Context) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("health").String(), nil)
	if err != nil {
		return Health{}, fmt.Errorf("make request: %w", err)
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return Health{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return Health{}, interrupted(ctx, agent.Errorf(agent.CodeUnavailable, "", "read health: %w", err))
	}
	var h Health
	if bytes.Contains(body, []byte(wantsTLS)) && resp.StatusCode == http.StatusBadRequest {
		return Health{}, agent.Errorf(agent.CodeUnavailable, "", "%w: %s wants TLS", ErrScheme, c.base)
	}
	known := json.Unmarshal(body, &h) == nil && h.Status != ""
	switch {
	case known && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusServiceUnavailable):
	case resp.StatusCode >= 300:
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return Health{}, responseError(resp)
	default:
		return Health{}, agent.Errorf(agent.CodeUnavailable, "", "%w: what answers at %s is no Turnstone", ErrForeign, c.base)
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		h.ServerTime = at
	}
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		h.CertUntil = resp.TLS.PeerCertificates[0].NotAfter
	}
	return h, nil
}
