package turns

import (
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxShortCall is how long a call may block a workflow's queries and updates.
	maxShortCall = 4 * time.Second
	// keptCallTimes is the number of recent durations that are kept for a model. With fewer than minCallTimes, its calls do not count as short.
	keptCallTimes = 50
	minCallTimes  = 10
	// maxTimedModels bounds the models whose durations are kept.
	maxTimedModels = 1024
)

// callTimes holds the durations of each model's recent calls in this process.
type callTimes struct {
	mu     sync.Mutex
	models map[string]*recentTimes
}

// recentTimes is a ring buffer of the last durations.
type recentTimes struct {
	durations [keptCallTimes]time.Duration
	n         int // the number of calls so far
}

func (c *callTimes) add(model string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.models[model]
	if r == nil {
		if c.models == nil || len(c.models) == maxTimedModels {
			c.models = map[string]*recentTimes{}
		}
		r = new(recentTimes)
		c.models[model] = r
	}
	r.durations[r.n%keptCallTimes] = took
	r.n++
}

// areShort reports whether nine in ten of a model's recent calls took less than maxShortCall. It is false for a model with few calls.
func (c *callTimes) areShort(model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.models[model]
	if r == nil || r.n < minCallTimes {
		return false
	}
	recent := slices.Clone(r.durations[:min(r.n, keptCallTimes)])
	slices.Sort(recent)
	return recent[len(recent)*9/10] < maxShortCall
}

// runsLocally reports whether the calls of a model run as local activities.
func (ts *Turns) runsLocally(model string) bool {
	return ts.ModelCalls == agent.ModelCallsLocal || ts.ModelCalls == agent.ModelCallsAuto && ts.callTimes.areShort(model)
}
