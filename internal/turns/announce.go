package turns

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// announce emits status RUNNING and the turn's route.
func (ts *Turns) announce(ctx context.Context, t *facts) error {
	events := []agent.Event{{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: t.fallback.Reason()}}
	if route := t.route; route != nil {
		body, err := json.Marshal(route)
		if err != nil {
			return fmt.Errorf("encode route: %w", err)
		}
		events = append(events, agent.Event{Type: agent.EventRoute, Route: body})
		ts.Registry.Routed(route)
	}
	_, err := ts.appendAlone(ctx, t.TurnRef, "turn", nil, events...) // stored with what the model says first: a turn that is begun again announces itself again
	return err
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
func (ts *Turns) begin(ctx context.Context, t TurnRef, producer string, isStored check) (agent.Fence, error) {
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
func (ts *Turns) appendAlone(ctx context.Context, t TurnRef, producer string, isStored check, events ...agent.Event) (agent.Fence, error) {
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
