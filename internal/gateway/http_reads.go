package gateway

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// resultRefHeader carries the canonical reference of a result.
const resultRefHeader = "Turnstone-Result-Ref"

// copyBytes is how much of a result is written under one deadline.
const copyBytes = 256 << 10

// getResult is GET /v1/results/{ref}: the stored document itself, streamed. ref is a result id, a turn id, or a reference, whose
// slashes may be escaped or not.
func (s *httpServer) getResult(w http.ResponseWriter, r *http.Request) error {
	who, err := caller(r)
	if err != nil {
		return err
	}
	ref, err := resultRef(r.PathValue("ref"))
	if err != nil {
		return err
	}
	ctx, cancel := s.untilClosing(r.Context())
	defer cancel()
	v, err := s.open(ctx, cancel, who, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	h := w.Header()
	h.Set("Content-Type", mediaTypeOf(v.MediaType))
	h.Set("Cache-Control", "no-store")
	h.Set(resultRefHeader, v.Ref)
	if v.TurnID != "" {
		h.Set(turnIDHeader, string(v.TurnID))
	}
	if v.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(v.Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for {
		s.extendWrite(w)
		if _, err := io.CopyN(w, v.Body, copyBytes); err == io.EOF { //nolint:errorlint // CopyN returns it bare
			return nil
		} else if err != nil {
			return quietly(err)
		}
	}
}

// open opens a result. Opening is bounded; reading goes on for as long as the client takes what comes and ctx lasts, so the bound
// cannot be a deadline of ctx.
func (g *Gateway) open(ctx context.Context, cancel context.CancelFunc, who identity, ref string) (ResultView, error) {
	bound := time.AfterFunc(g.cfg.Limits.CallTimeout, cancel)
	v, err := g.cfg.Runtime.Result(ctx, who.lookup(), ref)
	if err != nil {
		if !bound.Stop() {
			return v, context.DeadlineExceeded
		}
		return v, err
	}
	bound.Stop()
	return v, nil
}

// resultRef accepts artifact://x, artifact:/x (what a path cleaner makes of it), cas://x likewise, and a bare id.
func resultRef(ref string) (string, error) {
	for _, scheme := range []string{"artifact:", "cas:"} {
		if rest, ok := strings.CutPrefix(ref, scheme); ok {
			ref = scheme + "//" + strings.TrimLeft(rest, "/")
		}
	}
	if ref == "" || len(ref) > maxPath || strings.ContainsFunc(ref, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", agent.Errorf(agent.CodeNotFound, "", "no result %.140q", ref)
	}
	return ref, nil
}

// mediaTypeOf never lets stored content pass as something that a browser would run.
func mediaTypeOf(stored string) string {
	if stored == "" {
		return "application/json"
	}
	if _, _, err := mime.ParseMediaType(stored); err != nil {
		return "application/octet-stream"
	}
	return stored
}

// healthBody is the body of GET /health.
type healthBody struct {
	Status       string           `json:"status"` // ok or unavailable
	Version      string           `json:"version,omitempty"`
	Dependencies []dependencyBody `json:"dependencies"`
}

type dependencyBody struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// getHealth is GET /health: 200 only when a turn can run.
func (s *httpServer) getHealth(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.call(r)
	defer cancel()
	h := s.cfg.Runtime.Health(ctx)
	body := healthBody{Status: "ok", Version: s.cfg.Version, Dependencies: make([]dependencyBody, len(h.Dependencies))}
	for i, d := range h.Dependencies {
		body.Dependencies[i] = dependencyBody{Name: d.Name, OK: d.OK, Detail: d.Detail, TookMS: float64(d.Took.Microseconds()) / 1000}
	}
	status := http.StatusOK
	if !h.OK || s.closing.Err() != nil {
		status, body.Status = http.StatusServiceUnavailable, "unavailable"
	}
	s.write(w, status, body)
	return nil
}
