package activities

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
)

func TestTemporalError(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		retry bool
		kind  string
	}{
		"away":            {agent.Errorf(agent.CodeUnavailable, "finish", "no route to host"), true, "unavailable"},
		"a bug":           {errors.New("index out of range"), true, "internal"},
		"a bad request":   {agent.Invalid("message", "is empty"), false, "invalid"},
		"fenced":          {fmt.Errorf("save: %w", agent.ErrFenced), true, "fenced"},
		"turn ended":      {fmt.Errorf("begin: %w", agent.ErrStreamClosed), false, "fenced"},
		"turn cancelled":  {agent.Errorf(agent.CodeCancelled, "", "the turn was cancelled"), false, "cancelled"},
		"a stopped query": {fmt.Errorf("finish turn: %w", &agent.Error{Code: agent.CodeCancelled, Err: context.Canceled}), true, "cancelled"},
		"a stopped wait":  {fmt.Errorf("wait: %w", context.Canceled), true, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			var got *temporal.ApplicationError
			require.ErrorAs(t, TemporalError(c.err), &got)
			require.Equal(t, c.retry, !got.NonRetryable())
			require.Equal(t, c.kind, got.Type())
		})
	}
	require.True(t, temporal.IsCanceledError(TemporalError(fmt.Errorf("run node: %w", definitions.ErrCancelled))))
	require.NoError(t, TemporalError(nil))
}
