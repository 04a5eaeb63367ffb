package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestLongTurns(t *testing.T) {
	var out bytes.Buffer
	var o agent.Observer = longTurns{out: &out, minTime: time.Minute}
	ctx, done := o.Work(t.Context(), agent.Work{Name: "CallModel"})
	done(nil)
	for _, ms := range []int64{59_999, 61_000} {
		o.Ended(ctx, agent.TurnEnded{Turn: &agent.Observed{TurnID: "t1", Agent: "analyst"}, Output: &agent.AgentStepOutput{ExecutionTimeMS: ms}})
	}
	require.Equal(t, "turn t1 of analyst worked for 1m1s\n", out.String())
}
