package turns

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// announce emits status RUNNING and the turn's route. If another process may continue the turn without beginning it again, announce waits until the
// events are stored; otherwise they are stored together with the first output of the model.
func (ts *Turns) announce(ctx context.Context, t *facts, isDirect bool) error {
	events := []agent.Event{{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: t.fallback.Reason()}}
	if route := t.route; route != nil {
		body, err := json.Marshal(route)
		if err != nil {
			return fmt.Errorf("encode route: %w", err)
		}
		events = append(events, agent.Event{Type: agent.EventRoute, Route: body})
		ts.Registry.Routed(route)
	}
	fence, err := ts.appendAlone(ctx, t.TurnRef, "turn", nil, events...)
	if err != nil || isDirect || ts.modelRunsWithBegin(ctx, t) {
		return err
	}
	return logError(ts.Log.Sync(ctx, fence))
}

// modelRunsWithBegin reports whether a durable turn's first model call runs in the same workflow task as BeginTurn. If the process dies before that
// task ends, Temporal has no marker of BeginTurn and runs it again.
func (ts *Turns) modelRunsWithBegin(ctx context.Context, t *facts) bool {
	exec, err := ts.executor(ctx, t.PlanHash)
	return err == nil && len(exec.plan.Prepare) == 0 && ts.runsLocally(modelName(&exec.plan, t.model))
}

// AnnounceFallback emits status RUNNING with the reason why a direct turn continues as a workflow.
func (ts *Turns) AnnounceFallback(ctx context.Context, t TurnRef, why agent.Fallback) error {
	return ts.emit(ctx, t, "fallback", agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: why.Reason()})
}

// emit appends events of a producer while other producers may be writing, and waits until they are stored.
func (ts *Turns) emit(ctx context.Context, t TurnRef, producer string, events ...agent.Event) error {
	fence, err := ts.beginProducer(ctx, t, producer, nil)
	if err != nil {
		return err
	}
	if err := ts.appendEvents(ctx, t, fence, events); err != nil {
		return err
	}
	if err := ts.Log.Sync(ctx, fence); err != nil {
		return fmt.Errorf("store events of %s: %w", producer, err)
	}
	return nil
}

// beginProducer begins a new epoch of a producer while other producers may be writing, and waits until the epoch is stored.
func (ts *Turns) beginProducer(ctx context.Context, t TurnRef, producer string, isStored storedCheck) (agent.Fence, error) {
	fence, _, err := ts.beginEpoch(ctx, t, producer, isStored)
	if err == nil {
		err = ts.Log.Sync(ctx, fence)
	}
	if err != nil {
		return fence, fmt.Errorf("begin %s: %w", producer, err)
	}
	return fence, nil
}

// appendAlone appends events of a producer while no other producer writes. It does not wait until they are stored.
func (ts *Turns) appendAlone(ctx context.Context, t TurnRef, producer string, isStored storedCheck, events ...agent.Event) (agent.Fence, error) {
	fence, _, err := ts.beginEpoch(ctx, t, producer, isStored)
	if err != nil {
		return fence, fmt.Errorf("begin %s: %w", producer, err)
	}
	return fence, ts.appendEvents(ctx, t, fence, events)
}

func (ts *Turns) appendEvents(ctx context.Context, t TurnRef, fence agent.Fence, events []agent.Event) error {
	for i := range events {
		events[i].Meta.TurnID, events[i].Meta.AgentInstanceID = t.TurnID, t.InstanceID
	}
	if _, err := ts.Log.Append(ctx, fence, 1, events); err != nil {
		return fmt.Errorf("append %s: %w", fence.Producer, err)
	}
	return nil
}
