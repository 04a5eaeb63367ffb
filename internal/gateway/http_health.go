package gateway

import (
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// What GET /health says of the whole, besides ok and degraded.
const (
	healthFailing  = "failing" // no turn can run
	healthDraining = "draining"
)

// healthBody is the body of GET /health.
type healthBody struct {
	Status       string           `json:"status"` // ok, degraded, failing or draining
	Version      string           `json:"version,omitempty"`
	Workers      int              `json:"workers"` // jobs that this process may have under way
	Dependencies []dependencyBody `json:"dependencies"`
}

type dependencyBody struct {
	Name   string     `json:"name"`
	OK     bool       `json:"ok"`
	State  string     `json:"state"` // ok, degraded or down
	Detail string     `json:"detail,omitempty"`
	Hint   string     `json:"hint,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	TookMS float64    `json:"took_ms"`
}

// getHealth is GET /health: 503 only when no turn can run. Everybody may know what is wrong and what to do; addresses and the words of
// others are for those who run the system.
func (s *httpServer) getHealth(w http.ResponseWriter, r *http.Request) error {
	caller, err := callerOf(r.Context())
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	h := s.cfg.Runtime.Health(ctx)
	operator := !caller.isOfOneTenant() && caller.allowAny(agent.ActionHealthRead)
	body := healthBody{Status: HealthOK, Workers: h.Workers, Dependencies: make([]dependencyBody, len(h.Dependencies))}
	if operator {
		body.Version = s.cfg.Version
	}
	for i := range h.Dependencies {
		body.Dependencies[i] = tellDependency(&h.Dependencies[i], h.OK, operator)
		if body.Dependencies[i].State != HealthOK {
			body.Status = HealthDegraded
		}
	}
	status := http.StatusOK
	switch {
	case s.closing.Err() != nil:
		status, body.Status = http.StatusServiceUnavailable, healthDraining
	case !h.OK:
		status, body.Status = http.StatusServiceUnavailable, healthFailing
	}
	s.write(w, status, body)
	return nil
}

func tellDependency(d *Dependency, whole, operator bool) dependencyBody {
	out := dependencyBody{Name: d.Name, OK: d.OK, State: d.state(whole), Hint: d.Hint}
	if !operator {
		return out
	}
	out.Detail, out.TookMS = d.Detail, float64(d.Took.Microseconds())/1000
	if !d.Since.IsZero() {
		since := d.Since.UTC().Truncate(time.Second)
		out.Since = &since
	}
	return out
}
