package gateway

import (
	"net/http"
)

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
