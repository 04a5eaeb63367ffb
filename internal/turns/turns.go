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

// Config is what [New] needs; every field but the bounds, Observer and Logger is required.
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
	// OnUnavailable says what becomes of a call that needs an approval while the store of approvals does not answer; empty: it waits.
	OnUnavailable agent.OnUnavailable
	Observer      agent.Observer // nil: nobody watches
	Logger        *zap.Logger
	// DirectFallback counts direct turns that become durable because their process is gone; nil: nobody counts.
	DirectFallback func(why agent.Fallback)

	MaxMessageBytes    int              // of a request's messages; 0: 1 MiB
	QueueLength        int              // most turns waiting in one session; 0: 100
	BatchInterval      time.Duration    // how long tokens gather before they go to the log; 0: 25 ms
	ToolTimeout        time.Duration    // longest tool call, below the activity's own timeout; 0: 8 min
	InlineBytes        int              // a tool output beyond this goes to the blob store; 0: 32 KiB
	MaxInlineBytes     int              // a result beyond this goes to the blob store; 0: 10 MiB
	OutputBytes        int              // most output in the API's answer; 0: 64 KiB
	HistoryOutputBytes int              // most output in the workflow's result; 0: 1 KiB
	TurnEvents         int              // a turn continues as new after so many history events; 0: when the server suggests it
	ConversationEvents int              // a conversation likewise; 0: 2,000
	ProviderWait       time.Duration    // how long a turn waits in all for a model provider that is away; 0: it fails at once
	ModelCalls         agent.ModelCalls // how workflows run CallModel; empty: as normal activities
	SearchAttributes   func() bool      // whether the namespace knows those of every turn; nil: no
	StatusAttributes   func() bool      // whether it knows those of turns that waited or failed; nil: no
	FailsWorkflow      bool             // the workflow of a failed turn fails, too, unless another workflow waits for it
	MessageSummaries   bool             // Temporal's summary of a turn is the beginning of its message
	StartsHere         bool             // workflows that this process starts usually run in it: it owns their streams from the beginning
}

// Turns carries out what a turn does to the world, step by step, for whoever drives it.
type Turns struct {
	Config

	turns     *lru.Cache[agent.TurnID, facts]
	executors *lru.Cache[string, *executor] // by the hash of their plans
	building  singleflight.Group            // of executors
	callTimes callTimes
}

// New checks the configuration and fills in the bounds.
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
	if c.ToolTimeout <= 0 {
		c.ToolTimeout = 8 * time.Minute
	}
	if c.BatchInterval <= 0 {
		c.BatchInterval = 25 * time.Millisecond
	}
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
	turns, err := lru.New[agent.TurnID, facts](cachedTurns)
	if err != nil {
		return nil, fmt.Errorf("turn cache: %w", err)
	}
	executors, err := lru.New[string, *executor](cachedExecutors)
	if err != nil {
		return nil, fmt.Errorf("executor cache: %w", err)
	}
	return &Turns{Config: c, turns: turns, executors: executors}, nil
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}
