package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"
)

// Bounds of a run.
const (
	maxOutputBytes    = 256 << 10 // the output of one visit; more rows are stored and referenced
	maxRows           = 10_000    // rows that expressions can read
	maxRowBytes       = 8 << 20   // bytes of rows that expressions can read
	maxInputRowsBytes = 64 << 20  // the joined rows of several nodes for a pipeline
	maxFailureText    = 500       // bytes of a failure message in history
	cachedRuns        = 1024
)

// Config is the configuration of a [Runner]. Store and Rows are required. Nodes that need another port fail if it is nil.
type Config struct {
	Store     Store
	Turns     Turns     // agent nodes
	Mailer    Mailer    // action email
	Webhooks  Webhooks  // action webhook
	Pipelines Pipelines // action pipeline
	Rows      Rows
	Logger    *zap.Logger

	Attempts         int           // of a task that does not set max_attempts; 0: 4
	RetryPause       time.Duration // before the second attempt; the pause doubles before each further attempt; 0: 2 s
	RunEvents        int           // history events after which a run continues as new; 0: when the server suggests it
	SearchAttributes func() bool   // whether the namespace has Turnstone's search attributes; nil: no
}

// Runner begins and ends runs, makes the visits of their nodes and stores the outcomes. It is safe for concurrent use.
type Runner struct {
	Config

	runs *lru.Cache[string, *runFacts]
}

// New returns a Runner. It checks the configuration and sets defaults.
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
	runs, err := lru.New[string, *runFacts](cachedRuns)
	if err != nil {
		return nil, fmt.Errorf("run cache: %w", err)
	}
	return &Runner{Config: c, runs: runs}, nil
}
