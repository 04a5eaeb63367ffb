package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the search for turns that hold a place and have no workflow.
const (
	sweepTurns    = 10               // looked at in one search, the oldest first
	sweepPatience = 5 * time.Second  // for one search
	sweepEvery    = 10 * time.Second // between two searches for the same tenant, user or agent, however many are refused
	sweepsKept    = 4096             // tenants, users and agents whose last search is remembered
)

// sweeps remembers the time of the last search for each tenant, user and agent.
type sweeps struct {
	mu   sync.Mutex
	last *lru.Cache[string, time.Time]
}

func newSweeps() (*sweeps, error) {
	last, err := lru.New[string, time.Time](sweepsKept)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	return &sweeps{last: last}, nil
}

// due reports whether it is time for a search, which its caller then has to do.
func (s *sweeps) due(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.last.Get(key); ok && now.Sub(at) < sweepEvery {
		return false
	}
	s.last.Add(key, now)
	return true
}

// sweep ends turns without a workflow among those that take up the bound of a refused turn, and reports whether it ended one.
func (g *Gate) sweep(ctx context.Context, a *agent.Admission, refused agent.AdmissionRefused) (found bool) {
	if g.End == nil || !g.sweeps.due(refused.Kind+"\x00"+a.Tenant+"\x00"+refused.Name, time.Now()) {
		return false
	}
	ctx, free := context.WithTimeout(ctx, sweepPatience)
	defer free()
	log := g.Logger.With(zap.String("tenant", a.Tenant), zap.String("of", refused.Kind), zap.String("name", refused.Name))
	turns, err := g.Store.Running(ctx, boundedBy(a, refused.Kind), sweepTurns)
	if err != nil {
		log.Warn("list the turns that hold all places", zap.Error(err))
		return false
	}
	for _, id := range turns {
		ended, err := g.End(ctx, id)
		if err != nil {
			log.Warn("check a turn that holds a place", zap.String("turn", string(id)), zap.Error(err))
			continue
		}
		if ended {
			log.Info("a turn that nobody drove held a place", zap.String("turn", string(id)))
			found = true
		}
	}
	return found
}

// boundedBy returns an admission with the bound on concurrent turns of one kind, and no other.
func boundedBy(a *agent.Admission, kind string) agent.Admission {
	one := agent.Admission{TurnID: a.TurnID, Tenant: a.Tenant, UserID: a.UserID, Agent: a.Agent}
	switch kind {
	case agent.BoundTenant:
		one.Tenants.ConcurrentTurns = a.Tenants.ConcurrentTurns
	case agent.BoundUser:
		one.Users.ConcurrentTurns = a.Users.ConcurrentTurns
	case agent.BoundAgent:
		one.Agents.ConcurrentTurns = a.Agents.ConcurrentTurns
	}
	return one
}
