package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// minPause is the shortest time that a turn waits before it calls an unavailable or busy provider again.
	minPause = 5 * time.Second
	// maxPause bounds a pause, unless the provider asks for a longer one.
	maxPause = 5 * time.Minute
)

// pauseBefore returns how long a turn waits before it retries a failed model call. It returns 0 if the turn does not retry, because the failure is
// permanent or the turn would wait longer than maxTotal. Each pause is as long as all pauses before it together, or as long as the provider asks for.
func pauseBefore(err error, paused, maxTotal time.Duration) time.Duration {
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited:
	default:
		return 0
	}
	pause := min(max(minPause, paused), maxPause)
	if failure, ok := errors.AsType[*agent.Error](err); ok {
		pause = max(pause, failure.RetryAfter)
	}
	if paused+pause > maxTotal {
		return 0
	}
	return pause
}

// pause returns after how many milliseconds to retry a failed call, or 0 if it is not retried. It tells viewers of the pause. failure is err as viewers
// see it.
func (r *modelRun) pause(ctx context.Context, err error, failure *agent.Failure) (int64, error) {
	pause := pauseBefore(err, time.Duration(r.in.PausedMS)*time.Millisecond, r.ts.ProviderWait)
	if pause == 0 {
		return 0, nil
	}
	reason := fmt.Sprintf("%s; next try in %s", failure.Message, pause.Round(time.Second))
	err = r.ts.emit(ctx, r.turn.TurnRef, fmt.Sprintf("pause/%d/%d", r.in.Step, r.in.PausedMS),
		agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: reason})
	if errors.Is(err, agent.ErrFenced) { // another attempt of the same call tells them
		err = nil
	}
	return pause.Milliseconds(), err
}
