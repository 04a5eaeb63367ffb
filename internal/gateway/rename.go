package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// maxTitle bounds the title of a session, in characters.
const maxTitle = 200

// patchSession is PATCH /v1/sessions/{id}.
func (s *httpServer) patchSession(c *Call) (any, error) {
	var body struct {
		Title json.RawMessage `json:"title"`
	}
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	var title *string
	if json.Unmarshal(body.Title, &title) != nil {
		return nil, agent.Invalid("title", "want a string, or null for none")
	}
	if title == nil {
		title = new(string)
	}
	return s.renameSession(c.bounded(), c.caller, c.sessionID(), *title)
}

// renameSession sets the title of a session of the caller's tenant, audits that, and returns the session. Whoever runs turns may rename sessions.
func (g *Gateway) renameSession(ctx context.Context, caller identity, id agent.SessionID, title string) (agent.SessionSummary, error) {
	title = strings.TrimSpace(title)
	switch {
	case !caller.allowAny(agent.ActionTurnsRun):
		return agent.SessionSummary{}, caller.allow(agent.ActionTurnsRun, "")
	case !id.Valid():
		return agent.SessionSummary{}, noSession(id)
	}
	if err := checkTitle(title); err != nil {
		return agent.SessionSummary{}, err
	}
	err := g.cfg.Sessions.SetTitle(ctx, caller.ownTenant(), id, title, caller.actor(""))
	caller.auditChange(agent.ActionTurnsRun, "session/"+string(id), facts{"titled": title != ""}, err) // the title is the user's text: it is not recorded
	if err != nil {
		return agent.SessionSummary{}, err
	}
	page, err := g.findSessions(ctx, caller, agent.SessionQuery{SessionID: id, Limit: 1})
	if err != nil || len(page.Sessions) == 0 {
		return agent.SessionSummary{}, cmp.Or(err, noSession(id))
	}
	return page.Sessions[0], nil
}

func checkTitle(title string) error {
	switch n := utf8.RuneCountInString(title); {
	case n > maxTitle:
		return agent.Invalid("title", "is %d characters, at most %d", n, maxTitle)
	case !utf8.ValidString(title) || strings.ContainsFunc(title, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }):
		return agent.Invalid("title", "holds a line break, a control character, or is not UTF-8")
	}
	return nil
}

// RenameSession implements the service.
func (s *grpcServer) RenameSession(ctx context.Context, p *pb.RenameSessionRequest) (*pb.RenameSessionResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	renamed, err := s.renameSession(ctx, caller, agent.SessionID(p.GetSessionId()), p.GetTitle())
	if err != nil {
		return nil, err
	}
	return &pb.RenameSessionResponse{Session: sessionSummaryToProto(&renamed)}, nil
}
