package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	// idPrefix begins the ids of all schedules: schedule/tenant/name of an agent's, schedule/tenant/owner/tag/id of a definition's.
	idPrefix = "schedule/"
	// defaultCatchUp is how late a run may begin after an outage, unless the schedule says. Runs missed longer ago are skipped.
	defaultCatchUp = time.Minute
)

// agentScheduleID returns the id of an agent's schedule in Temporal.
func agentScheduleID(tenant, name string) string { return idPrefix + tenant + "/" + name }

// parseAgentScheduleID returns the parts of an id that [agentScheduleID] made; ok is false for any other id.
func parseAgentScheduleID(id string) (tenant, name string, ok bool) {
	rest, hasPrefix := strings.CutPrefix(id, idPrefix)
	tenant, name, hasName := strings.Cut(rest, "/")
	return tenant, name, hasPrefix && hasName && agent.ValidName(tenant) && agent.ValidName(name)
}

// sync makes Temporal's schedule match the stored one. It reads the store itself, so concurrent writers do no harm. With force it also updates a
// schedule that was made from the same source.
func (a *AgentSchedules) sync(ctx context.Context, tenant, name string, force bool) error {
	s, err := a.Store.Schedule(ctx, tenant, name)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return a.syncer.Remove(ctx, agentScheduleID(tenant, name))
	case err != nil:
		return err
	}
	desired, err := makeAgentSchedule(&s.Schedule)
	if err != nil {
		return err
	}
	return a.syncer.Ensure(ctx, &desired, force)
}

// makeAgentSchedule returns the schedule that Temporal should have. It holds only times and names; each run reads the rest when it begins.
func makeAgentSchedule(s *agent.Schedule) (desiredSchedule, error) {
	desired := desiredSchedule{
		ID:     agentScheduleID(s.Tenant, s.Name),
		Spec:   client.ScheduleSpec{CronExpressions: s.Cron, TimeZoneName: s.TimeZone},
		Policy: client.SchedulePolicies{Overlap: overlapPolicy(s.Overlap), CatchupWindow: defaultCatchUp},
		State:  client.ScheduleState{Paused: s.Paused, Note: s.Note},
		Action: client.ScheduleWorkflowAction{
			ID:       workflows.ScheduledRunID(s.Tenant, s.Name), // Temporal appends the time
			Workflow: workflows.ScheduledRunType, StaticSummary: "schedule " + s.Name,
			Args: []any{workflows.ScheduledRunInput{Tenant: s.Tenant, Schedule: s.Name}},
		},
		Source: []any{s.Cron, s.Every, s.TimeZone, s.Overlap, s.Jitter, s.CatchUpWindow, s.StartAt, s.EndAt, s.Paused, s.Note},
	}
	for _, d := range []struct {
		field, text string
		set         func(time.Duration)
	}{
		{"every", s.Every, func(d time.Duration) { desired.Spec.Intervals = []client.ScheduleIntervalSpec{{Every: d}} }},
		{"jitter", s.Jitter, func(d time.Duration) { desired.Spec.Jitter = d }},
		{"catch_up_window", s.CatchUpWindow, func(d time.Duration) { desired.Policy.CatchupWindow = d }},
	} {
		if d.text == "" {
			continue
		}
		value, err := time.ParseDuration(d.text)
		if err != nil {
			return desired, fmt.Errorf("schedule %q: %w", desired.ID, agent.Invalid(d.field, "%w", err))
		}
		d.set(value)
	}
	if s.StartAt != nil {
		desired.Spec.StartAt = *s.StartAt
	}
	if s.EndAt != nil {
		desired.Spec.EndAt = *s.EndAt
	}
	return desired, nil
}

func overlapPolicy(name string) enumspb.ScheduleOverlapPolicy {
	switch name {
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
