package turns

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestPauseBefore: pauses double up to a bound, are at least as long as the provider asks for, and end when the turn has waited long
// enough.
func TestPauseBefore(t *testing.T) {
	away := &agent.Error{Code: agent.CodeUnavailable, Err: errors.New("503")}
	busy := func(after time.Duration) error {
		return providerError{&agent.Error{Code: agent.CodeRateLimited, RetryAfter: after, Err: errors.New("429")}}
	}
	for name, c := range map[string]struct {
		err             error
		paused, allowed time.Duration
		want            time.Duration
	}{
		"the first":                   {err: away, allowed: time.Hour, want: 5 * time.Second},
		"the second":                  {err: away, paused: 5 * time.Second, allowed: time.Hour, want: 5 * time.Second},
		"a later one":                 {err: away, paused: 80 * time.Second, allowed: time.Hour, want: 80 * time.Second},
		"the longest":                 {err: away, paused: 30 * time.Minute, allowed: time.Hour, want: 5 * time.Minute},
		"as long as is asked for":     {err: busy(40 * time.Second), allowed: time.Hour, want: 40 * time.Second},
		"longer than the longest":     {err: busy(20 * time.Minute), allowed: time.Hour, want: 20 * time.Minute},
		"more is asked for than left": {err: busy(2 * time.Minute), paused: time.Minute, allowed: 150 * time.Second},
		"the last":                    {err: away, paused: 10 * time.Second, allowed: 20 * time.Second, want: 10 * time.Second},
		"no more":                     {err: away, paused: 11 * time.Second, allowed: 20 * time.Second},
		"not allowed":                 {err: away},
		"wrong credentials":           {err: providerError{&agent.Error{Code: agent.CodeDenied}}, allowed: time.Hour},
		"a bad request":               {err: providerError{&agent.Error{Code: agent.CodeInvalid}}, allowed: time.Hour},
		"no such model":               {err: providerError{&agent.Error{Code: agent.CodeNotFound}}, allowed: time.Hour},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, pauseBefore(c.err, c.paused, c.allowed)) })
	}
}
