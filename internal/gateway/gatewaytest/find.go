package gatewaytest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// FindTurns implements [gateway.Finder]. Every turn is of the agent analyst, and began a minute after the one before. After is a number of turns.
func (rt *Runtime) FindTurns(_ context.Context, q agent.TurnQuery) (agent.TurnPage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var found []agent.TurnSummary
	for i, id := range slices.Backward(rt.order) {
		t, ok := rt.turns[id]
		if !ok || t.request.Context.Tenant != q.Tenant {
			continue
		}
		s := summaryOf(id, t, Epoch().Add(time.Duration(i)*time.Minute))
		if (len(q.Status) == 0 || slices.Contains(q.Status, s.Status)) && cmp.Or(q.SessionID, s.SessionID) == s.SessionID &&
			cmp.Or(q.RerunOf, s.RerunOf) == s.RerunOf &&
			matchFilters(q.Agent, s.Agent, q.UserID, s.UserID, q.Channel, s.Channel) && isBetween(q.Since, q.Until, s.StartedAt) && containsFold(s.Summary, q.Text) {
			found = append(found, s)
		}
	}
	page, next, err := pageOf(found, agent.Page{Size: cmp.Or(q.Limit, 50), Token: q.After})
	return agent.TurnPage{Turns: page, Next: next}, err
}

// FindSessions implements [gateway.Finder].
func (rt *Runtime) FindSessions(ctx context.Context, q agent.SessionQuery) (agent.SessionPage, error) {
	var found []agent.SessionSummary
	all, err := rt.FindTurns(ctx, agent.TurnQuery{Tenant: q.Tenant, SessionID: q.SessionID, Limit: len(rt.Submitted()) + 1})
	if err != nil {
		return agent.SessionPage{}, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, t := range all.Turns {
		at := slices.IndexFunc(found, func(s agent.SessionSummary) bool { return s.SessionID == t.SessionID })
		if at < 0 {
			at = len(found)
			found = append(found, agent.SessionSummary{
				SessionID: t.SessionID, Title: rt.titles[t.SessionID], Agent: t.Agent, UserID: t.UserID, Channel: t.Channel, Status: t.Status, LastTurnID: t.TurnID, ActiveAt: t.StartedAt,
			})
		}
		found[at].Turns++
		found[at].Summary, found[at].CreatedAt = t.Summary, t.StartedAt
	}
	found = slices.DeleteFunc(found, func(s agent.SessionSummary) bool {
		return !matchFilters(q.Agent, s.Agent, q.UserID, s.UserID, q.Channel, s.Channel) || !isBetween(q.Since, q.Until, s.ActiveAt) ||
			len(q.Status) > 0 && !slices.Contains(q.Status, s.Status) || !containsFold(s.Title+"\n"+s.Summary, q.Text)
	})
	page, next, err := pageOf(found, agent.Page{Size: cmp.Or(q.Limit, 50), Token: q.After})
	return agent.SessionPage{Sessions: page, Next: next}, err
}

func summaryOf(id agent.TurnID, t *turn, at time.Time) agent.TurnSummary {
	s := agent.TurnSummary{
		TurnID: id, SessionID: t.request.SessionID, Agent: "analyst", UserID: t.request.Context.UserID, Channel: t.request.Channel, Status: t.state,
		Mode: t.request.Mode, Model: t.request.Model, StartedAt: at,
	}
	if r := t.request.Rerun; r != nil {
		s.RerunOf, s.FromStep = r.Of, r.FromStep
	}
	for _, m := range t.request.Input() {
		s.Summary = cmp.Or(s.Summary, agent.Normalize(m.Blocks))
	}
	if t.output != nil {
		end := at.Add(time.Duration(t.output.ExecutionTimeMS) * time.Millisecond)
		s.FinishedAt, s.StopReason, s.Usage = &end, t.output.StopReason, &t.output.Usage
		if t.output.Error != nil {
			s.ErrorType = t.output.Error.Type
		}
	}
	return s
}

// matchFilters reports whether each filter is empty or equals the value after it.
func matchFilters(pairs ...string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

func isBetween(since, until, at time.Time) bool {
	return !at.Before(since) && (until.IsZero() || at.Before(until))
}

func containsFold(summary, text string) bool {
	return strings.Contains(strings.ToLower(summary), strings.ToLower(text))
}
