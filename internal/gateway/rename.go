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

// maxTitle is the maximum length of the title of a session, in characters.
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
	return s.renameSession(c.callContext(), c.caller, c.sessionID(), *title)
}

// renameSession sets the title of a session of the caller's tenant, audits the change, and returns the session. A caller who may run turns may
// rename sessions.
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
	caller.auditChange(agent.ActionTurnsRun, "session/"+string(id), facts{"titled": title != ""}, err) // without the title, which is the user's text
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

func (s *grpcServer) RenameSession(ctx context.Context, p *pb.RenameSessionRequest) (*pb.RenameSessionResponse, error) {
	renamed, err := s.renameSession(ctx, callerOf(ctx), agent.SessionID(p.GetSessionId()), p.GetTitle())
	if err != nil {
		return nil, err
	}
	return &pb.RenameSessionResponse{Session: sessionSummaryToProto(&renamed)}, nil
}
