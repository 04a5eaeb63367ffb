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
	// timedCalls is how many calls of a model are remembered, minTimedCalls how many it takes to call them short.
	timedCalls    = 50
	minTimedCalls = 10
	// timedModels bounds the models that are remembered.
	timedModels = 1024
)

// callTimes remembers how long the recent calls of each model took in this process.
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
