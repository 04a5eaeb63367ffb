// Package catalog knows the agents. For now they come from configuration, compiled at start; documents and hot reload follow.
package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
)

// cachedPlans is how many plans that are no longer current a process keeps at hand.
const cachedPlans = 256

// PlanStore keeps compiled plans by hash, for turns that outlive the process or the plan.
type PlanStore interface {
	SavePlan(ctx context.Context, hash string, body []byte) error
	// Plan returns the bytes of a hash; [agent.CodeNotFound] when there are none.
	Plan(ctx context.Context, hash string) ([]byte, error)
}

// Registry serves the plans it was made with, for every tenant; the first is the default agent.
type Registry struct {
	store   PlanStore
	current []compiled
	saved   sync.Map // hash → struct{}: plans known to be in the store
	plans   *lru.Cache[string, agent.Plan]
}

type compiled struct {
	plan agent.Plan
	hash string
	body []byte
}

// New compiles the plans.
func New(store PlanStore, plans ...agent.Plan) (*Registry, error) {
	if len(plans) == 0 {
		return nil, fmt.Errorf("catalog: no agents")
	}
	cache, err := lru.New[string, agent.Plan](cachedPlans)
	if err != nil {
		return nil, fmt.Errorf("plan cache: %w", err)
	}
	r := &Registry{store: store, plans: cache}
	for _, p := range plans {
		body, hash, err := Compile(p)
		if err != nil {
			return nil, fmt.Errorf("compile agent %q: %w", p.Agent, err)
		}
		r.current = append(r.current, compiled{plan: p, hash: hash, body: body})
		r.plans.Add(hash, p)
	}
	return r, nil
}

// Compile returns the canonical JSON of a plan (RFC 8785) and its hash "sha256:<hex>". The same plan has the same hash.
func Compile(p agent.Plan) (body []byte, hash string, err error) {
	p.Schema = agent.PlanSchema
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, "", fmt.Errorf("encode plan: %w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(); err != nil {
		return nil, "", fmt.Errorf("canonical plan: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return canonical, "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Resolve returns the current plan of an agent, the default agent's for "", and makes sure that it can be found by hash later.
func (r *Registry) Resolve(ctx context.Context, _, name string) (agent.Plan, string, error) {
	for i := range r.current {
		c := &r.current[i]
		if name != "" && c.plan.Agent != name {
			continue
		}
		if _, ok := r.saved.Load(c.hash); !ok {
			if err := r.store.SavePlan(ctx, c.hash, c.body); err != nil {
				return agent.Plan{}, "", fmt.Errorf("save plan: %w", err)
			}
			r.saved.Store(c.hash, struct{}{})
		}
		return c.plan, c.hash, nil
	}
	return agent.Plan{}, "", agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
}

// Plan returns the plan of a hash; one whose stored bytes do not have that hash is refused.
func (r *Registry) Plan(ctx context.Context, hash string) (agent.Plan, error) {
	if p, ok := r.plans.Get(hash); ok {
		return p, nil
	}
	body, err := r.store.Plan(ctx, hash)
	if err != nil {
		return agent.Plan{}, err
	}
	sum := sha256.Sum256(body)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != hash {
		return agent.Plan{}, agent.Errorf(agent.CodeInternal, "load plan", "stored plan %s has hash %s", hash, got)
	}
	var p agent.Plan
	if err := json.Unmarshal(body, &p); err != nil {
		return agent.Plan{}, fmt.Errorf("decode plan %s: %w", hash, err)
	}
	r.plans.Add(hash, p)
	return p, nil
}

// Agents lists the current plans.
func (r *Registry) Agents() []agent.Plan {
	out := make([]agent.Plan, 0, len(r.current))
	for i := range r.current {
		out = append(out, r.current[i].plan)
	}
	return out
}
