package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// firstPause is how long a turn waits at least before it asks a provider again that was away or busy.
	firstPause = 5 * time.Second
	// longestPause bounds the pause where the provider names none.
	longestPause = 5 * time.Minute
)

// pauseBefore returns how long a turn waits before it makes a failed model call again, 0 if it does not: the failure is permanent, or the turn
// would wait longer than allowed in all. Each pause is as long as all before it together, or as long as the provider asks for.
func pauseBefore(err error, paused, allowed time.Duration) time.Duration {
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited:
	default:
		return 0
	}
	pause := min(max(firstPause, paused), longestPause)
	if failure, ok := errors.AsType[*agent.Error](err); ok {
		pause = max(pause, failure.RetryAfter)
	}
	if paused+pause > allowed {
		return 0
	}
	return pause
}

// pause returns after how many milliseconds a failed call is made again, 0 if it is not, and tells the viewers. failure is err as they read it.
func (r *modelRun) pause(ctx context.Context, err error, failure *agent.Failure) (int64, error) {
	pause := pauseBefore(err, time.Duration(r.in.PausedMS)*time.Millisecond, r.ts.ProviderWait)
	if pause == 0 {
		return 0, nil
	}
	reason := fmt.Sprintf("%s; next try in %s", failure.Message, pause.Round(time.Second))
	err = r.ts.emit(ctx, r.turn.TurnRef, fmt.Sprintf("pause/%d/%d", r.in.Step, r.in.PausedMS),
		agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: reason})
	if errors.Is(err, agent.ErrFenced) { // another attempt of the same call writes it
		err = nil
	}
	return pause.Milliseconds(), err
}
