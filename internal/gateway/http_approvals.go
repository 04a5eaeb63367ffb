package gateway

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// approvalsBody is the body of GET /v1/approvals.
type approvalsBody struct {
	Approvals []agent.Approval `json:"approvals"`
	Next      string           `json:"next_page_token"`
}

// getApprovals is GET /v1/approvals?state=&session_id=&turn_id=&page_size=&page_token=.
func (s *httpServer) getApprovals(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, err := q.readCaller(r)
	if err != nil {
		return err
	}
	query := agent.ApprovalQuery{
		State: q.text("state", maxText), SessionID: agent.SessionID(q.text("session_id", maxText)),
		TurnID: agent.TurnID(q.text("turn_id", maxText)),
	}
	page := q.page()
	if err := q.end(); err != nil {
		return err
	}
	found, err := s.listApprovals(r.Context(), caller, query, page)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, approvalsBody{Approvals: orEmpty(found.Approvals), Next: found.Next})
	return nil
}

// getApproval is GET /v1/approvals/{id}.
func (s *httpServer) getApproval(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	a, err := s.approval(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set(turnIDHeader, string(a.TurnID))
	s.write(w, http.StatusOK, a)
	return nil
}
