package turns

import (
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/turnstone-run/turnstone/agent"
)

// Config configures [New]. The ports up to Knowledge are required.
type Config struct {
	Registry   Registry
	Models     Models
	Tools      Tools
	Middleware Middleware
	Store      TurnStore
	Log        EventLog
	Blobs      Blobs
	Runs       Runs
	Schemas    Schemas
	Knowledge  Knowledge
	// OnUnavailable says what happens to a call that needs an approval while the store of approvals does not answer. Default: it waits.
	OnUnavailable agent.OnUnavailable
	Observer      agent.Observer // default: [agent.Unobserved]
	Logger        *zap.Logger    // default: no logs
	// DirectFallback counts direct turns that become durable because their process is gone. It may be nil.
	DirectFallback func(why agent.Fallback)

	MaxMessageBytes    int              // of a request's messages; default 1 MiB
	QueueLength        int              // how many turns may wait in one session; default 100
	BatchInterval      time.Duration    // how long tokens are gathered before they go to the log; default 25 ms
	ToolTimeout        time.Duration    // of a tool call; must be shorter than the activity's timeout; default 8 min
	InlineBytes        int              // larger tool outputs go to the blob store; default 32 KiB
	MaxInlineBytes     int              // larger results go to the blob store; default 10 MiB
	OutputBytes        int              // maximum of the output that the API returns; default 64 KiB
	HistoryOutputBytes int              // maximum of the output in the workflow's result; default 1 KiB
	TurnEvents         int              // the number of history events after which a turn continues as new; 0: when the server suggests it
	ConversationEvents int              // the same for a conversation; default 2,000
	ProviderWait       time.Duration    // how long a turn waits in total for an unavailable model provider; 0: it fails at once
	ModelCalls         agent.ModelCalls // how workflows run CallModel; default: as normal activities
	SearchAttributes   func() bool      // whether the namespace has the search attributes of every turn; nil: no
	StatusAttributes   func() bool      // whether it has those of turns that waited or failed; nil: no
	FailsWorkflow      bool             // whether the workflow of a failed turn fails, unless another workflow waits for it
	MessageSummaries   bool             // whether Temporal shows the beginning of a turn's message as its summary
	StartsHere         bool             // whether workflows that this process starts usually run in it, so that it should own their streams from the beginning
}

// Turns has the use cases of a running turn. Its methods are called by workflows, as activities, or by the process that runs a direct turn.
type Turns struct {
	Config

	turns     *lru.Cache[agent.TurnID, facts]
	executors *lru.Cache[string, *executor] // by the hash of their plans
	building  singleflight.Group            // of executors
	callTimes callTimes
}

// New returns a [Turns]. The error names the first required port that is missing.
func New(c Config) (*Turns, error) {
	for _, required := range []struct {
		name string
		port any
	}{
		{"Registry", c.Registry},
		{"Models", c.Models},
		{"Tools", c.Tools},
		{"Middleware", c.Middleware},
		{"Store", c.Store},
		{"Log", c.Log},
		{"Blobs", c.Blobs},
		{"Runs", c.Runs},
		{"Schemas", c.Schemas},
		{"Knowledge", c.Knowledge},
	} {
		if required.port == nil {
			return nil, errors.New("turns: " + required.name + " is missing")
		}
	}
	c.setDefaults()
	turns, err := lru.New[agent.TurnID, facts](maxCachedTurns)
	if err != nil {
		return nil, fmt.Errorf("turn cache: %w", err)
	}
	executors, err := lru.New[string, *executor](maxCachedExecutors)
	if err != nil {
		return nil, fmt.Errorf("executor cache: %w", err)
	}
	return &Turns{Config: c, turns: turns, executors: executors}, nil
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Observer == nil {
		c.Observer = agent.Unobserved{}
	}
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, 1<<20)
	c.QueueLength = orDefault(c.QueueLength, 100)
	c.InlineBytes = orDefault(c.InlineBytes, 32<<10)
	c.MaxInlineBytes = orDefault(c.MaxInlineBytes, 10<<20)
	c.OutputBytes = orDefault(c.OutputBytes, 64<<10)
	c.HistoryOutputBytes = orDefault(c.HistoryOutputBytes, 1<<10)
	c.ConversationEvents = orDefault(c.ConversationEvents, 2000)
	c.ToolTimeout = orDefault(c.ToolTimeout, 8*time.Minute)
	c.BatchInterval = orDefault(c.BatchInterval, 25*time.Millisecond)
	if c.DirectFallback == nil {
		c.DirectFallback = func(agent.Fallback) {}
	}
	no := func() bool { return false }
	if c.SearchAttributes == nil {
		c.SearchAttributes = no
	}
	if c.StatusAttributes == nil {
		c.StatusAttributes = no
	}
}

func orDefault[T int | time.Duration](n, def T) T {
	if n <= 0 {
		return def
	}
	return n
}
