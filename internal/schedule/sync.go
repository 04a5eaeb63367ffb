package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	prefix = "schedule/" // of the ids, before tenant/name
	// catchUp is how late a run may begin after an outage, where the schedule does not say.
	catchUp = time.Minute
)

// ID is the id of a schedule in Temporal.
func ID(tenant, name string) string { return prefix + tenant + "/" + name }

// sync makes Temporal's schedule be as the store says now, whoever asks: of two that write at once the slower one does no harm. force writes
// it also when it was made from the same.
func (k *Keeper) sync(ctx context.Context, tenant, name string, force bool) error {
	s, err := k.Store.Schedule(ctx, tenant, name)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return k.clock.Remove(ctx, ID(tenant, name))
	case err != nil:
		return err
	}
	w, err := wantOf(&s.Schedule)
	if err != nil {
		return err
	}
	return k.clock.Ensure(ctx, &w, force)
}

// wantOf is a schedule as Temporal is to know it: when it runs, and for whom; the rest is read when a run begins.
func wantOf(s *agent.Schedule) (clockwork.Want, error) {
	w := clockwork.Want{
		ID:     ID(s.Tenant, s.Name),
		Spec:   client.ScheduleSpec{CronExpressions: s.Cron, TimeZoneName: s.TimeZone},
		Policy: client.SchedulePolicies{Overlap: overlapOf(s.Overlap), CatchupWindow: catchUp},
		State:  client.ScheduleState{Paused: s.Paused, Note: s.Note},
		Action: client.ScheduleWorkflowAction{
			ID:       workflows.ScheduledRunID(s.Tenant, s.Name), // Temporal puts the time behind it
			Workflow: workflows.ScheduledRunType, StaticSummary: "schedule " + s.Name,
			Args: []any{workflows.ScheduledRunInput{Tenant: s.Tenant, Schedule: s.Name}},
		},
		From: []any{s.Cron, s.Every, s.TimeZone, s.Overlap, s.Jitter, s.CatchUpWindow, s.StartAt, s.EndAt, s.Paused, s.Note},
	}
	for _, d := range []struct {
		field, text string
		set         func(time.Duration)
	}{
		{"every", s.Every, func(d time.Duration) { w.Spec.Intervals = []client.ScheduleIntervalSpec{{Every: d}} }},
		{"jitter", s.Jitter, func(d time.Duration) { w.Spec.Jitter = d }},
		{"catch_up_window", s.CatchUpWindow, func(d time.Duration) { w.Policy.CatchupWindow = d }},
	} {
		if d.text == "" {
			continue
		}
		value, err := time.ParseDuration(d.text)
		if err != nil {
			return w, fmt.Errorf("schedule %q: %w", w.ID, agent.Invalid(d.field, "%w", err))
		}
		d.set(value)
	}
	if s.StartAt != nil {
		w.Spec.StartAt = *s.StartAt
	}
	if s.EndAt != nil {
		w.Spec.EndAt = *s.EndAt
	}
	return w, nil
}

func overlapOf(policy string) enumspb.ScheduleOverlapPolicy {
	switch policy {
	case agent.OverlapBufferOne:
		return enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE
	case agent.OverlapBufferAll:
		return enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
	case agent.OverlapCancelOther:
		return enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
	case agent.OverlapTerminate:
		return enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER
	case agent.OverlapAllowAll:
		return enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL
	default:
		return enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
	}
}

// owner takes an id of ours apart.
func owner(id string) (tenant, name string, ours bool) {
	rest, is := strings.CutPrefix(id, prefix)
	tenant, name, cut := strings.Cut(rest, "/")
	return tenant, name, is && cut && agent.ValidName(tenant) && agent.ValidName(name)
}
