package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
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

// getTurns is GET /v1/turns?status=&agent=&user=&channel=&session=&rerun_of=&since=&until=&text=&limit=&after=.
func (s *httpServer) getTurns(c *Call) (any, error) {
	q := c.query
	find := agent.TurnQuery{
		Status: q.list("status"), Agent: q.single("agent"), UserID: q.single("user"), Channel: q.single("channel"),
		SessionID: agent.SessionID(q.single("session")), RerunOf: agent.TurnID(q.single("rerun_of")), Since: q.time("since"), Until: q.time("until"),
		Text: q.single("text"), Limit: q.limit(agent.MaxFound), After: q.single("after"),
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	page, err := s.findTurns(c.bounded(), c.caller, find)
	page.Turns = orEmpty(page.Turns)
	return page, err
}

// getSessions is GET /v1/sessions?status=&agent=&user=&channel=&session=&since=&until=&text=&limit=&after=.
func (s *httpServer) getSessions(c *Call) (any, error) {
	q := c.query
	find := agent.SessionQuery{
		Status: q.list("status"), Agent: q.single("agent"), UserID: q.single("user"), Channel: q.single("channel"),
		SessionID: agent.SessionID(q.single("session")), Since: q.time("since"), Until: q.time("until"), Text: q.single("text"),
		Limit: q.limit(agent.MaxFound), After: q.single("after"),
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	page, err := s.findSessions(c.bounded(), c.caller, find)
	page.Sessions = orEmpty(page.Sessions)
	return page, err
}

// findTurns lists turns of the caller's tenant. It leaves out those of agents that the caller may not read.
func (g *Gateway) findTurns(ctx context.Context, caller identity, q agent.TurnQuery) (agent.TurnPage, error) {
	err := cmp.Or(checkStatus(q.Status), checkText("session", string(q.SessionID), maxText), checkText("rerun_of", string(q.RerunOf), maxText),
		checkFind(q.Agent, q.UserID, q.Channel, q.Text, q.After, q.Limit))
	if err != nil {
		return agent.TurnPage{}, err
	}
	q.Tenant = caller.ownTenant()
	page, err := g.cfg.Finder.FindTurns(ctx, q)
	page.Turns = filterAllowed(caller, agent.ActionTurnsRead, page.Turns, func(t *agent.TurnSummary) string { return t.Agent })
	return page, err
}

// findSessions lists sessions of the caller's tenant.
func (g *Gateway) findSessions(ctx context.Context, caller identity, q agent.SessionQuery) (agent.SessionPage, error) {
	err := cmp.Or(checkStatus(q.Status), checkText("session", string(q.SessionID), maxText),
		checkFind(q.Agent, q.UserID, q.Channel, q.Text, q.After, q.Limit))
	if err != nil {
		return agent.SessionPage{}, err
	}
	q.Tenant = caller.ownTenant()
	return g.cfg.Finder.FindSessions(ctx, q)
}

func checkStatus(states []string) error {
	for _, state := range states {
		if !slices.Contains(turnStatuses, state) {
			return agent.Invalid("status", "want one or more of %s, got %.60q", strings.Join(turnStatuses, ", "), state)
		}
	}
	return nil
}

// checkFind checks what the queries of turns and of sessions share.
func checkFind(name, user, channel, text, after string, limit int) error {
	return cmp.Or(checkLimit(int64(limit), agent.MaxFound), checkText("agent", name, maxText), checkText("user", user, maxText),
		checkText("channel", channel, maxText), checkText("text", text, maxSearchText), checkText("after", after, maxToken))
}

// ListTurns implements the service.
func (s *grpcServer) ListTurns(ctx context.Context, p *pb.ListTurnsRequest) (*pb.ListTurnsResponse, error) {
	caller, err := grpcCaller(ctx)
	if err = cmp.Or(err, checkTime("since", p.GetSince()), checkTime("until", p.GetUntil())); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, err := s.findTurns(ctx, caller, agent.TurnQuery{
		Status: p.GetStatus(), Agent: p.GetAgent(), UserID: p.GetUser(), Channel: p.GetChannel(), SessionID: agent.SessionID(p.GetSession()),
		RerunOf: agent.TurnID(p.GetRerunOf()), Since: timeFromProto(p.GetSince()), Until: timeFromProto(p.GetUntil()), Text: p.GetText(),
		Limit: int(p.GetLimit()), After: p.GetAfter(),
	})
	return &pb.ListTurnsResponse{Turns: each(page.Turns, turnSummaryToProto), Next: validText(page.Next)}, err
}

// ListSessions implements the service.
func (s *grpcServer) ListSessions(ctx context.Context, p *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	caller, err := grpcCaller(ctx)
	if err = cmp.Or(err, checkTime("since", p.GetSince()), checkTime("until", p.GetUntil())); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, err := s.findSessions(ctx, caller, agent.SessionQuery{
		Status: p.GetStatus(), Agent: p.GetAgent(), UserID: p.GetUser(), Channel: p.GetChannel(), SessionID: agent.SessionID(p.GetSession()),
		Since: timeFromProto(p.GetSince()), Until: timeFromProto(p.GetUntil()), Text: p.GetText(), Limit: int(p.GetLimit()), After: p.GetAfter(),
	})
	return &pb.ListSessionsResponse{Sessions: each(page.Sessions, sessionSummaryToProto), Next: validText(page.Next)}, err
}
