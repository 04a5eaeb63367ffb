package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"
)

// Bounds of what a run holds in memory or in the store.
const (
	maxGivenBytes  = 256 << 10 // of what one visit gives out; rows beyond go behind a reference
	maxRows        = 10_000    // that a text looks at
	maxRowBytes    = 8 << 20   // of those
	maxPooledBytes = 64 << 20  // of the rows of several nodes that a pipeline begins with
	maxFailureText = 500       // of a failure, which history holds
	cachedRuns     = 1024
)

// Config is what [New] needs; a port that is nil refuses the nodes that need it, all others are required.
type Config struct {
	Store     Store
	Turns     Turns     // agent nodes
	Mailer    Mailer    // action email
	Webhooks  Webhooks  // action webhook
	Pipelines Pipelines // action pipeline
	Rows      Rows
	Logger    *zap.Logger

	Attempts         int           // of a task that was not done and may be tried again, where it does not say; 0: 4
	RetryPause       time.Duration // before the second attempt, doubled before each one after; 0: 2 s
	RunEvents        int           // a run continues as new after so many history events; 0: when the server suggests it
	SearchAttributes func() bool   // whether the namespace knows ours; nil: no
}

// Runner is what runs of definitions do beside the workflow that drives them: it reads definitions, makes the visits of nodes and stores what
// came of them.
type Runner struct {
	Config

	runs *lru.Cache[string, *facts]
}

// New checks the configuration and fills in the bounds.
func New(c Config) (*Runner, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("definitions: Store is missing")
	case c.Rows == nil:
		return nil, errors.New("definitions: Rows is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.SearchAttributes == nil {
		c.SearchAttributes = func() bool { return false }
	}
	c.Attempts = cmp.Or(max(c.Attempts, 0), 4)
	c.RetryPause = cmp.Or(max(c.RetryPause, 0), 2*time.Second)
	runs, err := lru.New[string, *facts](cachedRuns)
	if err != nil {
		return nil, fmt.Errorf("run cache: %w", err)
	}
	return &Runner{Config: c, runs: runs}, nil
}
