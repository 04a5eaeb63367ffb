package gateway

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// healthBody is the body of GET /health.
type healthBody struct {
	Status       string           `json:"status"` // ok, unavailable or draining
	Version      string           `json:"version,omitempty"`
	Dependencies []dependencyBody `json:"dependencies,omitzero"` // null for a caller whom they do not concern
}

type dependencyBody struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// getHealth is GET /health: 200 only when a turn can run. What that depends on is told to those who run the system.
func (s *httpServer) getHealth(w http.ResponseWriter, r *http.Request) error {
	who, err := callerOf(r.Context())
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	h := s.cfg.Runtime.Health(ctx)
	body := healthBody{Status: "ok"}
	if !who.confined() && who.mayAny(agent.ActionHealthRead) {
		body.Version, body.Dependencies = s.cfg.Version, make([]dependencyBody, len(h.Dependencies))
		for i, d := range h.Dependencies {
			body.Dependencies[i] = dependencyBody{Name: d.Name, OK: d.OK, Detail: d.Detail, TookMS: float64(d.Took.Microseconds()) / 1000}
		}
	}
	status := http.StatusOK
	switch {
	case s.closing.Err() != nil:
		status, body.Status = http.StatusServiceUnavailable, "draining"
	case !h.OK:
		status, body.Status = http.StatusServiceUnavailable, "unavailable"
	}
	s.write(w, status, body)
	return nil
}

// getWhoami is GET /v1/whoami: the principal of the credential that was sent.
func (s *httpServer) getWhoami(w http.ResponseWriter, r *http.Request) error {
	who, err := soleCaller(r)
	if err != nil {
		return err
	}
	p := who.principal
	p.Scopes = orEmpty(p.Scopes)
	s.write(w, http.StatusOK, p)
	return nil
}

// getAudit is GET /v1/audit?tenant=&subject=&action=&outcome=&since=&before=&limit=. A credential of every tenant that names none gets the
// records of all.
func (s *httpServer) getAudit(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	who, err := q.caller(r)
	if err != nil {
		return err
	}
	query := agent.AuditQuery{
		Tenant: who.lookup(), Subject: q.text("subject", maxText), Action: q.text("action", maxText), Outcome: q.text("outcome", maxText),
		Since: q.moment("since"), Before: q.number("before"),
	}
	limit := q.number("limit")
	if err := q.end(); err != nil {
		return err
	}
	switch query.Outcome {
	case "", agent.AuditAllowed, agent.AuditDenied, agent.AuditFailed:
	default:
		return agent.Invalid("outcome", "want allowed, denied or failed, got %.60q", query.Outcome)
	}
	if limit > maxAuditPage {
		return agent.Invalid("limit", "want 1 to %d, got %d", maxAuditPage, limit)
	}
	query.Limit = int(limit)
	ctx, cancel := s.call(r)
	defer cancel()
	page, err := s.cfg.Audit.List(ctx, query)
	if err != nil {
		return err
	}
	page.Records = orEmpty(page.Records)
	s.write(w, http.StatusOK, page)
	return nil
}

// maxAuditPage is how many audit records a page has at most.
const maxAuditPage = 500
