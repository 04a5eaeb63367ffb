package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	prefix = "schedule/" // of the ids, before tenant/name
	// catchUp is how late a run may begin after an outage, where the schedule does not say.
	catchUp = time.Minute
	// memoHash is where a schedule says what it was made from.
	memoHash = "turnstone_schedule"
)

// ID is the id of a schedule in Temporal.
func ID(tenant, name string) string { return prefix + tenant + "/" + name }

// sync makes Temporal's schedule be as the store says now, whoever asks: of two that write at once the slower one does no harm. force writes
// it also when it was made from the same.
func (k *Keeper) sync(ctx context.Context, tenant, name string, force bool) error {
	s, err := k.Store.Schedule(ctx, tenant, name)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return k.remove(ctx, ID(tenant, name))
	case err != nil:
		return err
	}
	return k.ensure(ctx, &s.Schedule, force)
}

// wording is what of a schedule Temporal knows; the rest is read when a run begins.
type wording struct {
	spec   client.ScheduleSpec
	policy client.SchedulePolicies
	state  client.ScheduleState
	hash   string
}

func wordingOf(s *agent.Schedule) (wording, error) {
	w := wording{
		spec:   client.ScheduleSpec{CronExpressions: s.Cron, TimeZoneName: s.TimeZone},
		policy: client.SchedulePolicies{Overlap: overlapOf(s.Overlap), CatchupWindow: catchUp},
		state:  client.ScheduleState{Paused: s.Paused, Note: s.Note},
	}
	for _, d := range []struct {
		field, text string
		set         func(time.Duration)
	}{
		{"every", s.Every, func(d time.Duration) { w.spec.Intervals = []client.ScheduleIntervalSpec{{Every: d}} }},
		{"jitter", s.Jitter, func(d time.Duration) { w.spec.Jitter = d }},
		{"catch_up_window", s.CatchUpWindow, func(d time.Duration) { w.policy.CatchupWindow = d }},
	} {
		if d.text == "" {
			continue
		}
		value, err := time.ParseDuration(d.text)
		if err != nil {
			return w, agent.Invalid(d.field, "%w", err)
		}
		d.set(value)
	}
	if s.StartAt != nil {
		w.spec.StartAt = *s.StartAt
	}
	if s.EndAt != nil {
		w.spec.EndAt = *s.EndAt
	}
	raw, err := json.Marshal([]any{s.Cron, s.Every, s.TimeZone, s.Overlap, s.Jitter, s.CatchUpWindow, s.StartAt, s.EndAt, s.Paused, s.Note})
	if err != nil {
		return w, err
	}
	sum := sha256.Sum256(raw)
	w.hash = hex.EncodeToString(sum[:])
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

// ensure creates a schedule, or updates one that was made from something else.
func (k *Keeper) ensure(ctx context.Context, s *agent.Schedule, force bool) error {
	id := ID(s.Tenant, s.Name)
	w, err := wordingOf(s)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", id, err)
	}
	action := &client.ScheduleWorkflowAction{
		ID:       workflows.ScheduledRunID(s.Tenant, s.Name), // Temporal puts the time behind it
		Workflow: workflows.ScheduledRunType, TaskQueue: k.TaskQueue,
		Args: []any{workflows.ScheduledRunInput{Tenant: s.Tenant, Schedule: s.Name}},
		Memo: map[string]any{memoHash: w.hash}, StaticSummary: "schedule " + s.Name,
	}
	handle := k.Schedules.GetHandle(ctx, id)
	found, err := handle.Describe(ctx)
	if isNotFound(err) {
		_, err = k.Schedules.Create(ctx, client.ScheduleOptions{
			ID: id, Spec: w.spec, Action: action, Overlap: w.policy.Overlap, CatchupWindow: w.policy.CatchupWindow, Paused: w.state.Paused,
			Note: w.state.Note,
		})
		if err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return named(id, err)
		}
		found, err = handle.Describe(ctx) // somebody else was faster
	}
	if err != nil {
		return named(id, err)
	}
	if !force && k.made(&found.Schedule) == w.hash && queueOf(&found.Schedule) == k.TaskQueue {
		return nil
	}
	return named(id, handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule
			next.Spec, next.Action, next.Policy, next.State = &w.spec, action, &w.policy, &w.state
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}))
}

func (k *Keeper) remove(ctx context.Context, id string) error {
	err := k.Schedules.GetHandle(ctx, id).Delete(ctx)
	if isNotFound(err) {
		return nil
	}
	return named(id, err)
}

func named(id string, err error) error {
	if err == nil {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, "sync schedules", "schedule %q: %w", id, err)
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}

// made says what a schedule was made from, "" for one that somebody else made.
func (k *Keeper) made(s *client.Schedule) string {
	action, ok := s.Action.(*client.ScheduleWorkflowAction)
	if !ok {
		return ""
	}
	switch v := action.Memo[memoHash].(type) {
	case string:
		return v
	case *commonpb.Payload:
		var hash string
		if k.Data.FromPayload(v, &hash) == nil {
			return hash
		}
	}
	return ""
}

// queueOf is where a schedule starts its runs, "" when it starts none.
func queueOf(s *client.Schedule) string {
	if action, ok := s.Action.(*client.ScheduleWorkflowAction); ok {
		return action.TaskQueue
	}
	return ""
}

// owner takes an id of ours apart.
func owner(id string) (tenant, name string, ours bool) {
	rest, is := strings.CutPrefix(id, prefix)
	tenant, name, cut := strings.Cut(rest, "/")
	return tenant, name, is && cut && agent.ValidName(tenant) && agent.ValidName(name)
}
