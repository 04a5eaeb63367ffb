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

// maxStoredPlan bounds the JSON of a stored plan, in bytes.
const maxStoredPlan = 8 << 20

const (
	defaultCacheSize = 1024
	defaultCacheTTL  = time.Hour
	maxCachedBytes   = 256 << 20              // JSON of the plans in memory; the decoded plans take about as much again
	sharedTimeout    = 250 * time.Millisecond // of one call of the shared tier

	opLoadPlan = "load plan"
)

// SharedPlans is a cache that processes share. It is faster than the backend and unreliable: it may lose entries, fail, or hold wrong bytes.
// Every method returns soon after its context has ended. The caller owns the bytes.
type SharedPlans interface {
	// Get returns the plan with a hash, and false if there is none. Of a larger value it returns at least [maxStoredPlan]+1 bytes.
	Get(ctx context.Context, hash string) ([]byte, bool, error)
	Set(ctx context.Context, hash string, body []byte) error
	Drop(ctx context.Context, hash string) error
}

// planTier is the tier that had the plan of a lookup.
type planTier string

const (
	planTierMemory  planTier = "memory"
	planTierShared  planTier = "shared"
	planTierBackend planTier = "backend"
	planTierNone    planTier = "none" // the lookup failed
)

// PlanCacheConfig is the configuration of the cache of plans.
type PlanCacheConfig struct {
	Shared SharedPlans   // nil: none
	Size   int           // plans in memory; 0: 1,024
	TTL    time.Duration // in memory; 0: 1 h
}

// planCache finds the plan of a hash:
//
//	memory (LRU) → one load per hash at a time: shared tier, if any → backend
//
// A plan never changes, so entries are never stale; they expire only to make room. Bytes from outside the process are used only if their
// SHA-256 is the requested hash. A planCache is safe for concurrent use.
type planCache struct {
	backend  planBackend
	shared   *sharedGuard // nil: none
	memory   *planMemory
	loads    singleflight.Group
	logger   *zap.Logger
	onLookup func(planTier) // called for every hit in memory and every load
}

func newPlanCache(cfg PlanCacheConfig, backend planBackend, logger *zap.Logger, onLookup func(planTier)) (*planCache, error) {
	if cfg.Size < 0 || cfg.TTL < 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "make plan cache", "Size and TTL must not be negative")
	}
	plans, err := newPlanMemory(cmp.Or(cfg.Size, defaultCacheSize), maxCachedBytes, cmp.Or(cfg.TTL, defaultCacheTTL))
	if err != nil {
		return nil, fmt.Errorf("make plan cache: %w", err)
	}
	c := &planCache{backend: backend, memory: plans, logger: logger, onLookup: onLookup}
	if cfg.Shared != nil {
		c.shared = newSharedGuard(cfg.Shared, logger)
	}
	return c, nil
}

// Plan returns the plan with a hash, sha256:<64 lower-case hex digits>. Callers must not change it. Its error is [agent.CodeNotFound] if there
// is none, [agent.CodeInvalid] if the hash is malformed, [agent.CodeInternal] or [agent.CodeOverflow] if the stored bytes are wrong.
func (c *planCache) Plan(ctx context.Context, hash string) (*agent.Plan, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.plan, nil
}

// Bytes returns the canonical JSON of the plan with a hash. Callers must not change it. The errors are those of [planCache.Plan].
func (c *planCache) Bytes(ctx context.Context, hash string) ([]byte, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.body, nil
}

// Add caches a plan that this process has compiled. Callers must not change the plan or its bytes afterwards. If the bytes do not have that
// hash, Add only logs an error.
func (c *planCache) Add(hash string, plan *agent.Plan, body []byte) {
	if err := verifyPlan(hash, body); err != nil {
		c.logger.Error("compiled plan not kept", zap.Error(err))
		return
	}
	c.memory.add(hash, &cachedPlan{plan: plan, body: body})
}
