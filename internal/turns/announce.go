package turns

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// announce emits status RUNNING and the turn's route. They are stored before it returns if another process may go on with the turn and not begin
// it again; otherwise with what the model says first.
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

// modelRunsWithBegin reports whether a durable turn's first model call runs in the workflow task that begins the turn. A process that dies before
// the task ends leaves no marker, so the turn is begun again.
func (ts *Turns) modelRunsWithBegin(ctx context.Context, t *facts) bool {
	made, err := ts.executor(ctx, t.PlanHash)
	return err == nil && len(made.plan.Prepare) == 0 && ts.runsLocally(modelName(&made.plan, t.model))
}

// AnnounceFallback emits status RUNNING with the reason why a direct turn goes on as a workflow.
func (ts *Turns) AnnounceFallback(ctx context.Context, t TurnRef, why agent.Fallback) error {
	return ts.emit(ctx, t, "fallback", agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: why.Reason()})
}

// emit appends events of a producer that may run beside others, and waits until they are stored.
func (ts *Turns) emit(ctx context.Context, t TurnRef, producer string, events ...agent.Event) error {
	fence, err := ts.begin(ctx, t, producer, nil)
	if err != nil {
		return err
	}
	if err := ts.append(ctx, t, fence, events); err != nil {
		return err
	}
	if err := ts.Log.Sync(ctx, fence); err != nil {
		return fmt.Errorf("store events of %s: %w", producer, err)
	}
	return nil
}

// begin begins a producer that may run beside others, and waits until that is stored.
func (ts *Turns) begin(ctx context.Context, t TurnRef, producer string, isStored storedCheck) (agent.Fence, error) {
	fence, _, err := ts.beginEpoch(ctx, t, producer, isStored)
	if err == nil {
		err = ts.Log.Sync(ctx, fence)
	}
	if err != nil {
		return fence, fmt.Errorf("begin %s: %w", producer, err)
	}
	return fence, nil
}

// appendAlone appends events of a producer that runs alone, without waiting until they are stored.
func (ts *Turns) appendAlone(ctx context.Context, t TurnRef, producer string, isStored storedCheck, events ...agent.Event) (agent.Fence, error) {
	fence, _, err := ts.beginEpoch(ctx, t, producer, isStored)
	if err != nil {
		return fence, fmt.Errorf("begin %s: %w", producer, err)
	}
	return fence, ts.append(ctx, t, fence, events)
}

func (ts *Turns) append(ctx context.Context, t TurnRef, fence agent.Fence, events []agent.Event) error {
	for i := range events {
		events[i].Meta.TurnID, events[i].Meta.AgentInstanceID = t.TurnID, t.InstanceID
	}
	if _, err := ts.Log.Append(ctx, fence, 1, events); err != nil {
		return fmt.Errorf("append %s: %w", fence.Producer, err)
	}
	return nil
}
