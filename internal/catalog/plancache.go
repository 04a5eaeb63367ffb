package catalog

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/turnstone-run/turnstone/agent"
)

// maxStoredPlan is the largest plan, in bytes of its JSON.
const maxStoredPlan = 8 << 20

const (
	defaultCacheSize = 1024
	defaultCacheTTL  = time.Hour
	maxCachedBytes   = 256 << 20              // JSON of the plans in memory; decoded they take about as much again
	sharedTimeout    = 250 * time.Millisecond // of one call of the shared tier, which a lookup can do without

	opLoadPlan = "load plan"
)

// SharedPlans is a tier that processes share. It is faster than the backend and unreliable: it may forget, fail, or hold something else.
// Every method returns soon after its context has ended. The bytes belong to the caller.
type SharedPlans interface {
	// Get returns the bytes of a hash, and false if there are none. Of more than [maxStoredPlan] bytes it returns at least one more than that.
	Get(ctx context.Context, hash string) ([]byte, bool, error)
	Set(ctx context.Context, hash string, body []byte) error
	Drop(ctx context.Context, hash string) error
}

// planTier is where a lookup ended.
type planTier string

// The tiers.
const (
	planTierMemory  planTier = "memory"
	planTierShared  planTier = "shared"
	planTierBackend planTier = "backend"
	planTierNone    planTier = "none" // it failed
)

// PlanCacheConfig says how many plans are kept, and where.
type PlanCacheConfig struct {
	Shared SharedPlans   // nil: none
	Size   int           // plans in memory; 0: 1,024
	TTL    time.Duration // in memory; 0: 1 h
}

// planCache finds the plan of a hash:
//
//	memory (LRU) → one load per hash at a time: shared tier, if any → backend
//
// A plan never changes, so nothing here is ever out of date; what expires only makes room. Bytes from outside the process are used only
// if their SHA-256 is the hash that was asked for. It is safe for concurrent use.
type planCache struct {
	backend planBackend
	shared  *sharedGuard // nil: none
	memory  *planMemory
	flight  singleflight.Group
	logger  *zap.Logger
	looked  func(planTier) // called for every hit in memory and every load
}

func newPlanCache(cfg PlanCacheConfig, backend planBackend, logger *zap.Logger, looked func(planTier)) (*planCache, error) {
	if cfg.Size < 0 || cfg.TTL < 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "make plan cache", "Size and TTL must not be negative")
	}
	plans, err := newPlanMemory(cmp.Or(cfg.Size, defaultCacheSize), maxCachedBytes, cmp.Or(cfg.TTL, defaultCacheTTL))
	if err != nil {
		return nil, fmt.Errorf("make plan cache: %w", err)
	}
	c := &planCache{backend: backend, memory: plans, logger: logger, looked: looked}
	if cfg.Shared != nil {
		c.shared = newSharedGuard(cfg.Shared, logger)
	}
	return c, nil
}

// Plan returns the plan of a hash, sha256:<64 lower-case hex digits>. All callers share it: nobody may change it. Its error is
// [agent.CodeNotFound] if there is none, [agent.CodeInvalid] if it is no hash, [agent.CodeInternal] or [agent.CodeOverflow] if the bytes
// under it cannot be its plan.
func (c *planCache) Plan(ctx context.Context, hash string) (*agent.Plan, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.plan, nil
}

// Bytes returns the canonical JSON of a plan, which all callers share. The errors are those of [planCache.Plan].
func (c *planCache) Bytes(ctx context.Context, hash string) ([]byte, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.body, nil
}

// Add keeps a plan that this process has compiled. Nobody may change it or its bytes afterwards. If the bytes do not have that hash, Add
// only logs it.
func (c *planCache) Add(hash string, plan *agent.Plan, body []byte) {
	if err := verifyPlan(hash, body); err != nil {
		c.logger.Error("compiled plan not kept", zap.Error(err))
		return
	}
	c.memory.add(hash, &cachedPlan{plan: plan, body: body})
}
