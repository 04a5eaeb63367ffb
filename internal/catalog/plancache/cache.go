// Package plancache is how a process finds the plan of a hash:
//
//	memory (LRU) → one load per hash at a time: shared tier, if any → backend
//
// A plan never changes, so nothing here is ever out of date; what expires only makes room. Bytes that come from outside of the process
// are used when their sha-256 is the hash that was asked for, and else not, whoever holds them.
package plancache

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/turnstone-run/turnstone/agent"
)

// MaxPlan is the largest plan, in bytes of its JSON.
const MaxPlan = 8 << 20

const (
	defaultSize  = 1024
	defaultBytes = 256 << 20
	defaultTTL   = time.Hour

	defaultTimeout = 250 * time.Millisecond

	op = "load plan"
)

// Backend has every plan.
type Backend interface {
	// PlanBytes returns the bytes of a hash; [agent.CodeNotFound] when there are none.
	PlanBytes(ctx context.Context, hash string) ([]byte, error)
}

// Shared is a tier that processes share, faster than the backend and not to be relied on: it may forget, fail, or hold something else.
// Every method returns soon after its context has ended. The bytes belong to the caller.
type Shared interface {
	// Get returns the bytes of a hash, and false when there are none. Of bytes beyond [MaxPlan] it returns some more than that.
	Get(ctx context.Context, hash string) ([]byte, bool, error)
	Set(ctx context.Context, hash string, body []byte) error
	Drop(ctx context.Context, hash string) error
}

// Tier is where a lookup ended.
type Tier string

// The tiers.
const (
	TierMemory  Tier = "memory"
	TierShared  Tier = "shared"
	TierBackend Tier = "backend"
	TierNone    Tier = "none" // it failed
)

// Config says where plans come from and how many are kept.
type Config struct {
	Backend Backend
	Shared  Shared        // nil: none
	Size    int           // plans in memory; 0: 1,024
	Bytes   int64         // JSON of the plans in memory; 0: 256 MiB. What a plan takes decoded is about as much again.
	TTL     time.Duration // in memory; 0: 1 h
	Timeout time.Duration // of one call of the shared tier; 0: 250 ms. A lookup waits no longer for what it can do without.
	Logger  *zap.Logger   // nil: none
	Looked  func(Tier)    // is told of every hit in memory and of every load; nil: nobody is. It must not block.
}

// Cache finds plans. It is safe for concurrent use.
type Cache struct {
	backend Backend
	shared  *guard // nil: none
	memory  *memory
	flight  singleflight.Group
	logger  *zap.Logger
	looked  func(Tier)
}

// New returns an empty cache.
func New(cfg Config) (*Cache, error) {
	switch {
	case cfg.Backend == nil:
		return nil, agent.Errorf(agent.CodeInvalid, "make plan cache", "there is no backend")
	case cfg.Size < 0 || cfg.Bytes < 0 || cfg.TTL < 0 || cfg.Timeout < 0:
		return nil, agent.Errorf(agent.CodeInvalid, "make plan cache", "Size, Bytes, TTL and Timeout must not be negative")
	}
	if cfg.Size == 0 {
		cfg.Size = defaultSize
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = defaultBytes
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Looked == nil {
		cfg.Looked = func(Tier) {}
	}
	kept, err := newMemory(cfg.Size, cfg.Bytes, cfg.TTL)
	if err != nil {
		return nil, fmt.Errorf("make plan cache: %w", err)
	}
	c := &Cache{backend: cfg.Backend, memory: kept, logger: cfg.Logger, looked: cfg.Looked}
	if cfg.Shared != nil {
		c.shared = newGuard(cfg.Shared, cfg.Timeout, cfg.Logger)
	}
	return c, nil
}

// Plan returns the plan of a hash, sha256:<64 lower-case hex digits>. It is shared by all who asked: nobody may change it.
// [agent.CodeNotFound] when there is none, [agent.CodeInvalid] when it is no hash, [agent.CodeInternal] or [agent.CodeOverflow] when what
// is stored under it cannot be its plan.
func (c *Cache) Plan(ctx context.Context, hash string) (*agent.Plan, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.plan, nil
}

// Bytes returns the canonical JSON of a plan. It is shared as the plan is, and the errors are those of [Cache.Plan].
func (c *Cache) Bytes(ctx context.Context, hash string) ([]byte, error) {
	e, err := c.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	return e.body, nil
}

// Add keeps a plan that this process has compiled; from then on nobody may change it or its bytes. Bytes that do not have that hash are
// logged, and not kept.
func (c *Cache) Add(hash string, plan *agent.Plan, body []byte) {
	if plan == nil {
		return
	}
	if err := verify(hash, body); err != nil {
		c.logger.Error("compiled plan not kept", zap.Error(err))
		return
	}
	c.memory.add(hash, &entry{plan: plan, body: body})
}
