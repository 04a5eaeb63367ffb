package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// planLoadTimeout bounds one load, however many wait for it.
const planLoadTimeout = 15 * time.Second

const planHashPrefix = "sha256:"

// find returns the entry of a hash, from memory or by one load for all who ask at the same time.
func (c *planCache) find(ctx context.Context, hash string) (*cachedPlan, error) {
	if e := c.memory.get(hash); e != nil {
		c.looked(planTierMemory)
		return e, nil
	}
	if !isPlanHash(hash) {
		return nil, agent.Invalid("hash", "want sha256:<64 lower-case hex digits>, got %.80q", hash)
	}
	if err := agent.Interrupted(ctx, opLoadPlan); err != nil {
		return nil, err
	}
	// All callers share the load: one that leaves must not end it for the others.
	loaded := c.flight.DoChan(hash, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), planLoadTimeout)
		defer cancel()
		return c.load(ctx, hash)
	})
	select {
	case r := <-loaded:
		e, ok := r.Val.(*cachedPlan)
		if r.Err != nil || !ok {
			return nil, r.Err
		}
		return e, nil
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, opLoadPlan)
	}
}

func (c *planCache) load(ctx context.Context, hash string) (*cachedPlan, error) {
	if e := c.memory.get(hash); e != nil { // another load has just ended
		c.looked(planTierMemory)
		return e, nil
	}
	e, answers := c.fromShared(ctx, hash)
	if e != nil {
		c.looked(planTierShared)
		c.memory.add(hash, e)
		return e, nil
	}
	e, err := c.fromBackend(ctx, hash)
	if err != nil {
		c.looked(planTierNone)
		return nil, err
	}
	c.looked(planTierBackend)
	c.memory.add(hash, e)
	if answers {
		c.shared.set(ctx, hash, e.body)
	}
	return e, nil
}

// fromShared returns the plan if the shared tier has it, and whether the tier answers at all.
func (c *planCache) fromShared(ctx context.Context, hash string) (e *cachedPlan, answers bool) {
	if c.shared == nil {
		return nil, false
	}
	body, found, answers := c.shared.get(ctx, hash)
	if !found {
		return nil, answers
	}
	e, err := decodePlan(hash, body)
	if err != nil {
		c.logger.Warn("the shared tier holds something else than the plan; dropped", zap.Error(err))
		return nil, c.shared.drop(ctx, hash)
	}
	return e, true
}

func (c *planCache) fromBackend(ctx context.Context, hash string) (*cachedPlan, error) {
	body, err := c.backend.PlanBytes(ctx, hash)
	if err != nil {
		if late := agent.Interrupted(ctx, opLoadPlan); late != nil {
			return nil, late
		}
		return nil, fmt.Errorf("%s %q: %w", opLoadPlan, hash, err)
	}
	return decodePlan(hash, body)
}

// decodePlan returns the plan in bytes that have the hash. It ignores fields of later versions.
func decodePlan(hash string, body []byte) (*cachedPlan, error) {
	if err := verifyPlan(hash, body); err != nil {
		return nil, err
	}
	plan := &agent.Plan{}
	if err := json.Unmarshal(body, plan); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, opLoadPlan, "stored plan %s: %w", hash, err)
	}
	setAuthTenants(plan)
	return &cachedPlan{plan: plan, body: body}, nil
}

// setAuthTenants completes a plan of an earlier release, whose auth profiles have no tenant: they belong to the plan's own.
func setAuthTenants(plan *agent.Plan) {
	set := func(auth *agent.PlanAuth) {
		if auth != nil && auth.Tenant == "" {
			auth.Tenant = plan.Tenant
		}
	}
	for i := range plan.Models {
		set(plan.Models[i].Auth)
	}
	for i := range plan.Tools {
		for j := range plan.Tools[i].Auth {
			set(&plan.Tools[i].Auth[j])
		}
	}
	for i := range plan.Sources {
		for j := range plan.Sources[i].Auth {
			set(&plan.Sources[i].Auth[j])
		}
	}
	for i := range plan.Prepare {
		if m := plan.Prepare[i].Embedding; m != nil {
			set(m.Auth)
		}
	}
}

// verifyPlan returns an error unless the bytes have the hash and are not too long.
func verifyPlan(hash string, body []byte) error {
	if len(body) > maxStoredPlan {
		return agent.Errorf(agent.CodeOverflow, opLoadPlan, "stored plan %s is larger than %s bytes", hash, humanize.Comma(maxStoredPlan))
	}
	sum := sha256.Sum256(body)
	if got := planHashPrefix + hex.EncodeToString(sum[:]); got != hash {
		return agent.Errorf(agent.CodeInternal, opLoadPlan, "stored plan %s has hash %s", hash, got)
	}
	return nil
}

// isPlanHash reports whether a text is sha256:<64 lower-case hex digits>.
func isPlanHash(hash string) bool {
	digits, ok := strings.CutPrefix(hash, planHashPrefix)
	return ok && len(digits) == hex.EncodedLen(sha256.Size) && strings.Trim(digits, "0123456789abcdef") == ""
}
