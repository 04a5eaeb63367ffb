package turns

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestRunsLocally: model calls run locally if that is configured, or in mode auto if nine in ten of the recent calls were short.
func TestRunsLocally(t *testing.T) {
	repeat := func(n int, d time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, d)
		}
		return all
	}
	for name, c := range map[string]struct {
		mode  agent.ModelCalls
		times []time.Duration
		local bool
	}{
		"set to local":           {mode: agent.ModelCallsLocal, times: repeat(50, time.Minute), local: true},
		"set to activity":        {mode: agent.ModelCallsActivity, times: repeat(50, time.Millisecond)},
		"not set":                {times: repeat(50, time.Millisecond)},
		"too few calls":          {mode: agent.ModelCallsAuto, times: repeat(minCallTimes-1, time.Millisecond)},
		"short":                  {mode: agent.ModelCallsAuto, times: repeat(minCallTimes, time.Second), local: true},
		"as long as the bound":   {mode: agent.ModelCallsAuto, times: repeat(50, maxShortCall)},
		"one in ten long":        {mode: agent.ModelCallsAuto, times: append(repeat(46, time.Second), repeat(4, time.Minute)...), local: true},
		"one in nine long":       {mode: agent.ModelCallsAuto, times: append(repeat(44, time.Second), repeat(6, time.Minute)...)},
		"long before, now short": {mode: agent.ModelCallsAuto, times: append(repeat(500, time.Minute), repeat(50, time.Second)...), local: true},
		"short before, now long": {mode: agent.ModelCallsAuto, times: append(repeat(500, time.Second), repeat(10, time.Minute)...)},
	} {
		t.Run(name, func(t *testing.T) {
			a := Turns{Config: Config{ModelCalls: c.mode}}
			for _, d := range c.times {
				a.callTimes.add("m", d)
			}
			require.Equal(t, c.local, a.runsLocally("m"))
			require.Equal(t, c.mode == agent.ModelCallsLocal, a.runsLocally("another"))
		})
	}
}

func TestCallTimesAreBounded(t *testing.T) {
	var c callTimes
	for i := range 3 * maxTimedModels {
		c.add(strconv.Itoa(i), time.Second)
	}
	require.LessOrEqual(t, len(c.models), maxTimedModels)
}
