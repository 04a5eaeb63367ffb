package gateway

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// getMessages is GET /v1/sessions/{id}/messages?after=&limit=.
func (s *httpServer) getMessages(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r, "after", "limit")
	if err != nil {
		return err
	}
	session := agent.SessionID(r.PathValue("id"))
	if !session.Valid() {
		return noSession(session)
	}
	after, err := queryInt(r, "after")
	if err != nil {
		return err
	}
	limit, err := queryInt(r, "limit")
	if err != nil {
		return err
	}
	most := int64(s.cfg.Limits.MessagePage)
	if limit == 0 || limit > most {
		limit = most
	}
	ctx, cancel := s.call(r)
	defer cancel()
	page, err := s.cfg.Runtime.Messages(ctx, caller.ownTenant(), session, after, int(limit))
	if err != nil {
		return err
	}
	if page.Messages == nil {
		page.Messages = []SessionMessage{}
	}
	s.write(w, http.StatusOK, page)
	return nil
}

// getExport is GET /v1/sessions/{id}/export.
func (s *httpServer) getExport(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	export, err := s.exportSession(r.Context(), caller, agent.SessionID(r.PathValue("id")))
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, export)
	return nil
}

// deleteSession is DELETE /v1/sessions/{id}.
func (s *httpServer) deleteSession(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	gone, err := s.forgetSession(r.Context(), caller, agent.SessionID(r.PathValue("id")))
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, gone)
	return nil
}
