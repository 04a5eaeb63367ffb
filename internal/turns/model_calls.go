package turns

import (
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// shortCall is the longest call that may block a workflow's queries and updates.
	shortCall = 4 * time.Second
	// timedCalls is the number of calls of a model that are remembered; with fewer than minTimedCalls the model does not count as short.
	timedCalls    = 50
	minTimedCalls = 10
	// timedModels bounds the models that are remembered.
	timedModels = 1024
)

// callTimes holds the durations of each model's recent calls in this process.
type callTimes struct {
	mu     sync.Mutex
	models map[string]*recentTimes
}

// recentTimes is a ring of the last durations.
type recentTimes struct {
	durations [timedCalls]time.Duration
	n         int // calls so far
}

func (c *callTimes) add(model string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.models[model]
	if r == nil {
		if c.models == nil || len(c.models) == timedModels {
			c.models = map[string]*recentTimes{}
		}
		r = new(recentTimes)
		c.models[model] = r
	}
	r.durations[r.n%timedCalls] = took
	r.n++
}

// areShort reports whether nine in ten of a model's recent calls took less than shortCall. It is false for a model with few calls.
func (c *callTimes) areShort(model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.models[model]
	if r == nil || r.n < minTimedCalls {
		return false
	}
	recent := slices.Clone(r.durations[:min(r.n, timedCalls)])
	slices.Sort(recent)
	return recent[len(recent)*9/10] < shortCall
}

// runsLocally reports whether the calls of a model run as local activities.
func (ts *Turns) runsLocally(model string) bool {
	return ts.ModelCalls == agent.ModelCallsLocal || ts.ModelCalls == agent.ModelCallsAuto && ts.callTimes.areShort(model)
}
