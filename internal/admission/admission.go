package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Store counts; postgres.Store does.
type Store interface {
	// Admit admits a turn, or refuses it with [agent.CodeRateLimited] and an [agent.AdmissionRefused]. A turn that was admitted is admitted
	// again and counted once.
	Admit(ctx context.Context, a agent.Admission) error
	// Running lists turns that count against the bounds on concurrent turns of a, the longest running first.
	Running(ctx context.Context, a agent.Admission, limit int) ([]agent.TurnID, error)
	// Leave frees the place of an admitted turn that will not begin. The request stays counted.
	Leave(ctx context.Context, tenant string, id agent.TurnID) error
}

// Bounds apply to everybody without bounds of their own.
type Bounds struct {
	Tenant agent.Bound // of each tenant
	User   agent.Bound // of each user within his tenant
	Agent  agent.Bound // of each agent within the tenant that asks it
}

// TenantBounds are the bounds of one tenant, in place of those of [Bounds].
type TenantBounds struct {
	Tenant agent.Bound
	User   agent.Bound
}

// Config is what [New] needs.
type Config struct {
	Store    Store
	Defaults Bounds
	Tenants  map[string]TenantBounds
	// End ends a turn whose workflow no longer exists, and reports whether it has ended. Without it, the turn of a terminated workflow keeps
	// its place for ever.
	End    func(ctx context.Context, id agent.TurnID) (bool, error)
	Logger *zap.Logger
}

// Gate admits turns.
type Gate struct {
	Config

	sweeps *sweeps
}

// New checks the bounds.
func New(c Config) (*Gate, error) {
	if c.Store == nil {
		return nil, errors.New("admission: Store is missing")
	}
	if err := validate("limits", TenantBounds{Tenant: c.Defaults.Tenant, User: c.Defaults.User}); err != nil {
		return nil, err
	}
	if err := check("limits.agent", &c.Defaults.Agent); err != nil {
		return nil, err
	}
	for name, b := range c.Tenants {
		if !agent.ValidName(name) {
			return nil, agent.Invalid("limits.tenants", "%q is no tenant's name", name)
		}
		if err := validate(fmt.Sprintf("limits.tenants[%s]", name), b); err != nil {
			return nil, err
		}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	s, err := newSweeps()
	if err != nil {
		return nil, err
	}
	return &Gate{Config: c, sweeps: s}, nil
}

func validate(path string, b TenantBounds) error {
	if err := check(path+".tenant", &b.Tenant); err != nil {
		return err
	}
	return check(path+".user", &b.User)
}

func check(path string, b *agent.Bound) error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{agent.BoundRequestsPerMinute, float64(b.RequestsPerMinute)},
		{agent.BoundConcurrentTurns, float64(b.ConcurrentTurns)},
		{agent.BoundTokensPerMinute, float64(b.TokensPerMinute)},
		{agent.BoundDailyCost, b.DailyCostUSD},
		{agent.BoundMonthlyCost, b.MonthlyCostUSD},
		{agent.BoundDailyTokens, float64(b.DailyTokens)},
		{agent.BoundMonthlyTokens, float64(b.MonthlyTokens)},
	} {
		if f.value < 0 || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return agent.Invalid(path+"."+f.name, "is %v, want 0 or more", f.value)
		}
	}
	return nil
}

// Admit admits a turn of an agent, or refuses it with [agent.CodeRateLimited] and the time after which to try again. doc has the limits of
// the agent's own document. If the store cannot be asked, the error is [agent.CodeUnavailable].
//
// leave, which is never nil, is for a caller whose turn will not begin after all: it frees the turn's place at once instead of after a minute.
func (g *Gate) Admit(
	ctx context.Context, turn agent.TurnID, tenant, user, agentName string, doc agent.RateLimits,
) (leave func(context.Context), err error) {
	a := g.admission(turn, tenant, user, agentName, doc)
	if (a.Tenants == agent.Bound{}) && (a.Users == agent.Bound{}) && (a.Agents == agent.Bound{}) {
		return func(context.Context) {}, nil
	}
	return func(ctx context.Context) { g.leave(ctx, &a) }, g.admit(ctx, a)
}

func (g *Gate) admit(ctx context.Context, a agent.Admission) error {
	err := g.Store.Admit(ctx, a)
	if refused, ok := errors.AsType[agent.AdmissionRefused](err); ok && refused.Bound == agent.BoundConcurrentTurns && g.sweep(ctx, &a, refused) {
		err = g.Store.Admit(ctx, a)
	}
	switch agent.CodeOf(err) {
	case "", agent.CodeRateLimited, agent.CodeCancelled:
		return err
	default:
		g.Logger.Error("the limits cannot be checked: no turn is let in", zap.String("tenant", a.Tenant), zap.String("agent", a.Agent), zap.Error(err))
		return &agent.Error{Code: agent.CodeUnavailable, Op: "check limits", RetryAfter: time.Second, Err: err}
	}
}

// leavePatience bounds the call that frees a place. If it fails, the place becomes free after a minute.
const leavePatience = 2 * time.Second

func (g *Gate) leave(ctx context.Context, a *agent.Admission) {
	ctx, free := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer free()
	if err := g.Store.Leave(ctx, a.Tenant, a.TurnID); err != nil {
		g.Logger.Warn("give a place back", zap.String("turn", string(a.TurnID)), zap.Error(err))
	}
}

// admission returns the bounds that apply to a turn. A turn without a user has no bounds of that kind.
func (g *Gate) admission(turn agent.TurnID, tenant, user, agentName string, doc agent.RateLimits) agent.Admission {
	a := agent.Admission{
		TurnID: turn, Tenant: tenant, UserID: user, Agent: agentName, Tenants: g.Defaults.Tenant, Users: g.Defaults.User, Agents: g.Defaults.Agent,
	}
	if own, ok := g.Tenants[tenant]; ok {
		a.Tenants, a.Users = own.Tenant, own.User
	}
	if user == "" {
		a.Users = agent.Bound{}
	}
	a.Agents.RequestsPerMinute = stricter(a.Agents.RequestsPerMinute, doc.RequestsPerMinute)
	a.Agents.ConcurrentTurns = stricter(a.Agents.ConcurrentTurns, doc.ConcurrentTurns)
	a.Agents.TokensPerMinute = stricter(a.Agents.TokensPerMinute, doc.TokensPerMinute)
	return a
}

// stricter returns the lower of two bounds. 0 stands for no bound.
func stricter[N cmp.Ordered](a, b N) N {
	var none N
	if a == none || (b != none && b < a) {
		return b
	}
	return a
}
