package jobs

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// Defaults and bounds.
const (
	DefaultQueue        = "agent:jobs"
	DefaultResultPrefix = "agent:results"

	defaultConcurrency = 64
	defaultMaxHeld     = 10_000
	defaultDrain       = 30 * time.Second
	defaultResultTTL   = 24 * time.Hour
	defaultLease       = 15 * time.Second

	maxConcurrency = 10_000
	maxMaxHeld     = 100_000
	maxHeldBytes   = 256 << 20 // of all messages in a bridge
	minLease       = 100 * time.Millisecond
)

// Results returns the metadata of finished turns. The error is [agent.CodeNotFound] for a turn without metadata.
type Results interface {
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
}

// Config is the configuration of [New].
type Config struct {
	URL          string               // redis://user:password@host:6379/0, rediss:// for TLS, unix:///path/to/socket
	Redis        *redis.Options       // replaces URL; nil: use URL
	Queue        string               // "": agent:jobs
	ResultPrefix string               // of <prefix>:<job id>; "": agent:results
	Tenant       string               // the owner of the jobs; "": the default tenant
	Approvals    agent.ApprovalPolicy // for calls that need an approval; "": refuse
	Results      Results              // nil: the metadata of results comes from the turn's output

	Concurrency int           // maximum of jobs that run; 0: 64
	MaxHeld     int           // maximum of jobs that run or wait; 0: 10,000
	Drain       time.Duration // how long running jobs may go on after the context of [Bridge.Serve] has ended; 0: 30 s
	ResultTTL   time.Duration // how long a result waits for its producer; 0: 24 h, negative: without end
	Lease       time.Duration // how long a bridge may be silent before others consider it dead; 0: 15 s

	Logger  *zap.Logger
	Metrics prometheus.Registerer // nil: no metrics
}

// withDefaults returns the configuration with defaults, or an error that names the invalid setting.
func (c Config) withDefaults() (Config, error) {
	c.Queue = cmp.Or(c.Queue, DefaultQueue)
	c.ResultPrefix = cmp.Or(c.ResultPrefix, DefaultResultPrefix)
	c.Approvals = cmp.Or(c.Approvals, agent.ApprovalsRefuse)
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.MaxHeld = cmp.Or(c.MaxHeld, max(defaultMaxHeld, c.Concurrency))
	c.Drain = cmp.Or(c.Drain, defaultDrain)
	c.ResultTTL = cmp.Or(c.ResultTTL, defaultResultTTL)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	switch {
	case c.Tenant != "" && !agent.ValidName(c.Tenant):
		return c, agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return c, agent.Invalid("concurrency", "is %d, want 1 to %d", c.Concurrency, maxConcurrency)
	case c.MaxHeld < c.Concurrency || c.MaxHeld > maxMaxHeld:
		return c, agent.Invalid("max_held", "is %d, want the concurrency, %d, to %d", c.MaxHeld, c.Concurrency, maxMaxHeld)
	case c.Drain < 0:
		return c, agent.Invalid("drain", "is negative")
	case c.Lease < minLease:
		return c, agent.Invalid("lease", "is %s, at least %s", c.Lease, minLease)
	}
	return c, c.Approvals.Validate("approvals")
}

// newClient returns a client that connects when it is first used. options replaces the URL unless it is nil.
func newClient(address string, options *redis.Options) (*redis.Client, error) {
	if options == nil {
		if address == "" {
			return nil, agent.Invalid("url", "is empty: want redis://host:6379")
		}
		var err error
		if options, err = redis.ParseURL(address); err != nil {
			return nil, agent.Invalid("url", "%w", err)
		}
	}
	return redis.New(*options), nil
}
