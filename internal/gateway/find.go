package gateway

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Finder is the port of the lists of turns and sessions, the newest first. The queries are checked for shape, and their Limit is 0 to
// [agent.MaxFound]. An invalid place is [agent.CodeInvalid] with Field "after".
type Finder interface {
	FindTurns(ctx context.Context, q agent.TurnQuery) (agent.TurnPage, error)
	FindSessions(ctx context.Context, q agent.SessionQuery) (agent.SessionPage, error)
}

// maxSearchText bounds the text that is looked for, in bytes: a summary has 500 characters.
const maxSearchText = 2000

// turnStatuses are the states of a turn.
//
//nolint:gochecknoglobals // a constant in all but syntax
var turnStatuses = []string{
	agent.StateQueued, agent.StateRunning, agent.StateWaiting, string(agent.TurnCompleted), string(agent.TurnFailed), string(agent.TurnCancelled),
}

// getTurns is GET /v1/turns?status=&agent=&user=&channel=&session=&since=&until=&text=&limit=&after=. A page leaves out the turns of agents
// that the caller may not read.
func (s *httpServer) getTurns(c *Call) (any, error) {
	q := c.query
	find := agent.TurnQuery{
		Tenant: c.Tenant(), Status: q.list("status", turnStatuses), Agent: q.text("agent", maxText), UserID: q.text("user", maxText),
		Channel: q.text("channel", maxText), SessionID: agent.SessionID(q.text("session", maxText)), Since: q.time("since"), Until: q.time("until"),
		Text: q.text("text", maxSearchText), Limit: q.limit(agent.MaxFound), After: q.text("after", maxToken),
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	page, err := s.cfg.Finder.FindTurns(c.bounded(), find)
	page.Turns = orEmpty(filterAllowed(c.caller, agent.ActionTurnsRead, page.Turns, func(t *agent.TurnSummary) string { return t.Agent }))
	return page, err
}

// getSessions is GET /v1/sessions?agent=&user=&channel=&since=&until=&text=&limit=&after=.
func (s *httpServer) getSessions(c *Call) (any, error) {
	q := c.query
	find := agent.SessionQuery{
		Tenant: c.Tenant(), Agent: q.text("agent", maxText), UserID: q.text("user", maxText), Channel: q.text("channel", maxText),
		Since: q.time("since"), Until: q.time("until"), Text: q.text("text", maxSearchText), Limit: q.limit(agent.MaxFound),
		After: q.text("after", maxToken),
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	page, err := s.cfg.Finder.FindSessions(c.bounded(), find)
	page.Sessions = orEmpty(page.Sessions)
	return page, err
}
