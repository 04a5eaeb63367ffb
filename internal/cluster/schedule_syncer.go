package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// memoHash is the memo field that holds the hash of a schedule's Source.
	memoHash = "turnstone_schedule"
	// maxID bounds an id of Temporal, in bytes.
	maxID = 900
	// checkTimeout bounds Check, so that a request to store a schedule does not wait longer for a Temporal that is away.
	checkTimeout = 5 * time.Second
	op           = "sync schedules"
)

// desiredSchedule is the desired state of a schedule in Temporal.
type desiredSchedule struct {
	ID     string
	Spec   client.ScheduleSpec
	Policy client.SchedulePolicies
	State  client.ScheduleState
	// Action starts a workflow. The syncer sets its task queue and its memo.
	Action client.ScheduleWorkflowAction
	// Source is what the schedule is made from, as a value with a JSON form. A schedule in Temporal made from an equal source is left alone.
	Source any
}

// scheduleSyncer makes the schedules of one task queue match the desired ones. Its errors are [agent.CodeUnavailable] and wrap Temporal's own.
type scheduleSyncer struct {
	schedules client.ScheduleClient
	queue     string
	data      converter.DataConverter
}

// newScheduleSyncer returns a syncer of the schedules that start workflows on a task queue. data is the client's converter, which encodes memos; nil
// is the SDK's default.
func newScheduleSyncer(schedules client.ScheduleClient, queue string, data converter.DataConverter) (*scheduleSyncer, error) {
	switch {
	case schedules == nil:
		return nil, errors.New("cluster: Schedules is missing")
	case queue == "":
		return nil, errors.New("cluster: the task queue is missing")
	}
	if data == nil {
		data = converter.GetDefaultDataConverter()
	}
	return &scheduleSyncer{schedules: schedules, queue: queue, data: data}, nil
}

// Ensure creates a schedule, or updates one that was made from another source or for another queue. With force it updates any. It is
// idempotent, and concurrent calls for one schedule do no harm.
func (s *scheduleSyncer) Ensure(ctx context.Context, desired *desiredSchedule, force bool) error {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // the schedule's runs do not belong to the caller's trace
	if desired.ID == "" || len(desired.ID) > maxID {
		return agent.Errorf(agent.CodeInvalid, op, "the id of schedule %.140q is %d bytes, want 1 to %d", desired.ID, len(desired.ID), maxID)
	}
	hash, err := sourceHash(desired.Source)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", desired.ID, err)
	}
	action := desired.Action
	action.TaskQueue, action.Memo = s.queue, map[string]any{memoHash: hash}
	handle := s.schedules.GetHandle(ctx, desired.ID)
	found, err := handle.Describe(ctx)
	if isNotFound(err) {
		err = s.create(ctx, desired, &action, desired.State)
		if err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return wrapError(desired.ID, err)
		}
		found, err = handle.Describe(ctx) // another process has just created it
	}
	if err != nil {
		return wrapError(desired.ID, err)
	}
	if !force && s.storedHash(&found.Schedule) == hash && taskQueue(&found.Schedule) == s.queue {
		return nil
	}
	return wrapError(desired.ID, handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule
			spec, policy, state := desired.Spec, desired.Policy, desired.State
			next.Spec, next.Action, next.Policy, next.State = &spec, &action, &policy, &state
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}))
}

// Check asks Temporal whether it accepts a schedule, before the schedule is stored. The error is [agent.CodeInvalid], with Temporal's reason,
// if Temporal refuses; then nothing has changed. Temporal has no call that only checks, so a new schedule is created paused, and the
// caller follows up with Ensure or Remove. An existing schedule is not touched.
func (s *scheduleSyncer) Check(ctx context.Context, desired *desiredSchedule) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	action := desired.Action
	action.TaskQueue = s.queue // no hash in the memo, so that Ensure updates the schedule
	err := s.create(ctx, desired, &action, client.ScheduleState{Paused: true, Note: "about to be stored"})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return nil
	}
	if refusal, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
		return agent.Errorf(agent.CodeInvalid, op, "%s", refusal.Message)
	}
	return wrapError(desired.ID, err)
}

func (s *scheduleSyncer) create(ctx context.Context, desired *desiredSchedule, action *client.ScheduleWorkflowAction, state client.ScheduleState) error {
	_, err := s.schedules.Create(ctx, client.ScheduleOptions{
		ID: desired.ID, Spec: desired.Spec, Action: action, Overlap: desired.Policy.Overlap, CatchupWindow: desired.Policy.CatchupWindow,
		PauseOnFailure: desired.Policy.PauseOnFailure, Paused: state.Paused, Note: state.Note,
	})
	return err
}

// Remove deletes a schedule. A schedule that does not exist is no error.
func (s *scheduleSyncer) Remove(ctx context.Context, id string) error {
	err := s.schedules.GetHandle(ctx, id).Delete(ctx)
	if isNotFound(err) {
		return nil
	}
	return wrapError(id, err)
}

// removeOfQueue deletes a schedule if it is for this syncer's task queue. Other runtimes may keep schedules in the same namespace.
func (s *scheduleSyncer) removeOfQueue(ctx context.Context, id string) error {
	found, err := s.schedules.GetHandle(ctx, id).Describe(ctx)
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return wrapError(id, err)
	case taskQueue(&found.Schedule) != s.queue:
		return nil
	}
	return s.Remove(ctx, id)
}

// refusedField returns the field of a schedule that Temporal's refusal is about: time_zone, or else the field named by times. The server may
// know fewer time zones than this process.
func refusedField(refusal error, times string) string {
	if strings.Contains(refusal.Error(), "time zone") {
		return "time_zone"
	}
	return times
}

// isNotFound reports whether Temporal answered that the object does not exist.
func isNotFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}

// wrapError returns err as [agent.CodeUnavailable] with the id of the schedule, or nil.
func wrapError(id string, err error) error {
	if err == nil {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, op, "schedule %q: %w", id, err)
}

// sourceHash returns the SHA-256 hash of a source's JSON form, in hexadecimal.
func sourceHash(source any) (string, error) {
	raw, err := json.Marshal(source)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// storedHash returns the hash in the memo of a schedule, or "" if it has none because somebody else made it.
func (s *scheduleSyncer) storedHash(found *client.Schedule) string {
	action, ok := found.Action.(*client.ScheduleWorkflowAction)
	if !ok {
		return ""
	}
	switch v := action.Memo[memoHash].(type) {
	case string:
		return v
	case *commonpb.Payload:
		var hash string
		if s.data.FromPayload(v, &hash) == nil {
			return hash
		}
	}
	return ""
}

// taskQueue returns the task queue that a schedule starts its workflows on, or "" if it starts none.
func taskQueue(found *client.Schedule) string {
	if action, ok := found.Action.(*client.ScheduleWorkflowAction); ok {
		return action.TaskQueue
	}
	return ""
}
