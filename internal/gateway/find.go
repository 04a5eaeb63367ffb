package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Finder is the port of the lists of turns and sessions, the newest first. Limit is 0 to [agent.MaxFound]. An invalid After is
// [agent.CodeInvalid] with Field "after".
type Finder interface {
	FindTurns(ctx context.Context, q agent.TurnQuery) (agent.TurnPage, error)
	FindSessions(ctx context.Context, q agent.SessionQuery) (agent.SessionPage, error)
}

// maxSearchText is the maximum length of the text to look for, in bytes. A summary has 500 characters.
const maxSearchText = 2000

// turnStatuses are the states of a turn.
//
//nolint:gochecknoglobals // a constant in all but syntax
var turnStatuses = []string{
	agent.StateQueued, agent.StateRunning, agent.StateWaiting, string(agent.TurnCompleted), string(agent.TurnFailed), string(agent.TurnCancelled),
}

// readTurnQuery reads ?status=&agent=&user=&channel=&session=&rerun_of=&since=&until=&text=&limit=&after=.
func readTurnQuery(q *query) agent.TurnQuery {
	return agent.TurnQuery{
		Status: q.list("status"), Agent: q.single("agent"), UserID: q.single("user"), Channel: q.single("channel"),
		SessionID: agent.SessionID(q.single("session")), RerunOf: agent.TurnID(q.single("rerun_of")), Since: q.time("since"), Until: q.time("until"),
		Text: q.single("text"), Limit: q.limit(agent.MaxFound), After: q.single("after"),
	}
}

// readSessionQuery reads ?status=&agent=&user=&channel=&session=&since=&until=&text=&limit=&after=.
func readSessionQuery(q *query) agent.SessionQuery {
	return agent.SessionQuery{
		Status: q.list("status"), Agent: q.single("agent"), UserID: q.single("user"), Channel: q.single("channel"),
		SessionID: agent.SessionID(q.single("session")), Since: q.time("since"), Until: q.time("until"), Text: q.single("text"),
		Limit: q.limit(agent.MaxFound), After: q.single("after"),
	}
}

// findTurns lists turns of the caller's tenant, without those of agents whose turns the caller may not read.
func (g *Gateway) findTurns(ctx context.Context, caller identity, q agent.TurnQuery) (agent.TurnPage, error) {
	if err := cmp.Or(checkStatus(q.Status), checkText("session", string(q.SessionID), maxText), checkText("rerun_of", string(q.RerunOf), maxText),
		checkSearch(q.Agent, q.UserID, q.Channel, q.Text, q.After, q.Limit)); err != nil {
		return agent.TurnPage{}, err
	}
	q.Tenant = caller.ownTenant()
	page, err := g.cfg.Finder.FindTurns(ctx, q)
	page.Turns = orEmpty(filterAllowed(caller, agent.ActionTurnsRead, page.Turns, func(t *agent.TurnSummary) string { return t.Agent }))
	return page, err
}

// findSessions lists sessions of the caller's tenant.
func (g *Gateway) findSessions(ctx context.Context, caller identity, q agent.SessionQuery) (agent.SessionPage, error) {
	if err := cmp.Or(checkStatus(q.Status), checkText("session", string(q.SessionID), maxText),
		checkSearch(q.Agent, q.UserID, q.Channel, q.Text, q.After, q.Limit)); err != nil {
		return agent.SessionPage{}, err
	}
	q.Tenant = caller.ownTenant()
	page, err := g.cfg.Finder.FindSessions(ctx, q)
	page.Sessions = orEmpty(page.Sessions)
	return page, err
}

func checkStatus(states []string) error {
	for _, state := range states {
		if !slices.Contains(turnStatuses, state) {
			return agent.Invalid("status", "want one or more of %s, got %.60q", strings.Join(turnStatuses, ", "), state)
		}
	}
	return nil
}

// checkSearch checks the fields that the queries of turns and of sessions share.
func checkSearch(name, user, channel, text, after string, limit int) error {
	return cmp.Or(checkLimit(int64(limit), agent.MaxFound), checkText("agent", name, maxText), checkText("user", user, maxText),
		checkText("channel", channel, maxText), checkText("text", text, maxSearchText), checkText("after", after, maxToken))
}

func (s *grpcServer) ListTurns(ctx context.Context, p *pb.ListTurnsRequest) (*pb.ListTurnsResponse, error) {
	if err := cmp.Or(checkTime("since", p.GetSince()), checkTime("until", p.GetUntil())); err != nil {
		return nil, err
	}
	page, err := s.findTurns(ctx, callerOf(ctx), agent.TurnQuery{
		Status: p.GetStatus(), Agent: p.GetAgent(), UserID: p.GetUser(), Channel: p.GetChannel(), SessionID: agent.SessionID(p.GetSession()),
		RerunOf: agent.TurnID(p.GetRerunOf()), Since: timeFromProto(p.GetSince()), Until: timeFromProto(p.GetUntil()), Text: p.GetText(),
		Limit: int(p.GetLimit()), After: p.GetAfter(),
	})
	return &pb.ListTurnsResponse{Turns: convertAll(page.Turns, turnSummaryToProto), Next: validText(page.Next)}, err
}

func (s *grpcServer) ListSessions(ctx context.Context, p *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	if err := cmp.Or(checkTime("since", p.GetSince()), checkTime("until", p.GetUntil())); err != nil {
		return nil, err
	}
	page, err := s.findSessions(ctx, callerOf(ctx), agent.SessionQuery{
		Status: p.GetStatus(), Agent: p.GetAgent(), UserID: p.GetUser(), Channel: p.GetChannel(), SessionID: agent.SessionID(p.GetSession()),
		Since: timeFromProto(p.GetSince()), Until: timeFromProto(p.GetUntil()), Text: p.GetText(), Limit: int(p.GetLimit()), After: p.GetAfter(),
	})
	return &pb.ListSessionsResponse{Sessions: convertAll(page.Sessions, sessionSummaryToProto), Next: validText(page.Next)}, err
}
