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

// planLoadTimeout bounds one load, which several callers may share.
const planLoadTimeout = 15 * time.Second

const planHashPrefix = "sha256:"

// find returns the plan with a hash from memory, or loads it. Concurrent callers share one load.
func (c *planCache) find(ctx context.Context, hash string) (*cachedPlan, error) {
	if e := c.memory.get(hash); e != nil {
		c.onLookup(planTierMemory)
		return e, nil
	}
	if !isPlanHash(hash) {
		return nil, agent.Invalid("hash", "want sha256:<64 lower-case hex digits>, got %.80q", hash)
	}
	if err := agent.Interrupted(ctx, opLoadPlan); err != nil {
		return nil, err
	}
	// The load must not end when one of the callers that share it gives up.
	loaded := c.loads.DoChan(hash, func() (any, error) {
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

// load reads a plan from the shared tier or the backend and adds it to the faster tiers.
func (c *planCache) load(ctx context.Context, hash string) (*cachedPlan, error) {
	if e := c.memory.get(hash); e != nil { // another load has just finished
		c.onLookup(planTierMemory)
		return e, nil
	}
	e, sharedWorks := c.readShared(ctx, hash)
	if e != nil {
		c.onLookup(planTierShared)
		c.memory.add(hash, e)
		return e, nil
	}
	e, err := c.readBackend(ctx, hash)
	if err != nil {
		c.onLookup(planTierNone)
		return nil, err
	}
	c.onLookup(planTierBackend)
	c.memory.add(hash, e)
	if sharedWorks {
		c.shared.set(ctx, hash, e.body)
	}
	return e, nil
}

// readShared returns a plan from the shared tier, nil if it is not there, and whether the tier works.
func (c *planCache) readShared(ctx context.Context, hash string) (e *cachedPlan, works bool) {
	if c.shared == nil {
		return nil, false
	}
	body, found, works := c.shared.get(ctx, hash)
	if !found {
		return nil, works
	}
	e, err := decodePlan(hash, body)
	if err != nil {
		c.logger.Warn("the shared tier holds something else than the plan; dropped", zap.Error(err))
		return nil, c.shared.drop(ctx, hash)
	}
	return e, true
}

func (c *planCache) readBackend(ctx context.Context, hash string) (*cachedPlan, error) {
	body, err := c.backend.PlanBytes(ctx, hash)
	if err != nil {
		if interrupted := agent.Interrupted(ctx, opLoadPlan); interrupted != nil {
			return nil, interrupted
		}
		return nil, fmt.Errorf("%s %q: %w", opLoadPlan, hash, err)
	}
	return decodePlan(hash, body)
}

// decodePlan decodes a plan whose bytes must have the hash. It ignores unknown fields, which later releases may add.
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

// setAuthTenants sets the plan's tenant in auth profiles without one, which earlier releases stored.
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

// verifyPlan returns an error if the bytes do not have the hash or are too long.
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
