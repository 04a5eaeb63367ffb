package gateway

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// getWhoami is GET /v1/whoami: the principal of the credential that was sent.
func (s *httpServer) getWhoami(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	p := caller.principal
	p.Scopes = orEmpty(p.Scopes)
	s.write(w, http.StatusOK, p)
	return nil
}

// getAudit is GET /v1/audit?tenant=&subject=&action=&outcome=&since=&before=&limit=. A credential of every tenant that names none gets the
// records of all.
func (s *httpServer) getAudit(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, err := q.readCaller(r)
	if err != nil {
		return err
	}
	query := agent.AuditQuery{
		Tenant: caller.lookupTenant(), Subject: q.text("subject", maxText), Action: q.text("action", maxText), Outcome: q.text("outcome", maxText),
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
