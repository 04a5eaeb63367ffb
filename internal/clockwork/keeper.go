// Package clockwork keeps Temporal's schedules: whoever stores what runs by the clock says how a schedule is to be, a [Want], and a [Keeper]
// creates, changes and deletes. A schedule that a person paused, or changed, in Temporal stays so until what it is made from changes.
package clockwork

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
	// memoHash is where a schedule says what it was made from.
	memoHash = "turnstone_schedule"
	// maxID bounds an id of Temporal, in bytes.
	maxID = 900
	// checkTimeout bounds Check: whoever stores a schedule does not wait longer for a Temporal that is away.
	checkTimeout = 5 * time.Second
	op           = "sync schedules"
)

// Want is a schedule as it is to be.
type Want struct {
	ID     string
	Spec   client.ScheduleSpec
	Policy client.SchedulePolicies
	State  client.ScheduleState
	// Action starts a workflow; its queue and its memo are the keeper's.
	Action client.ScheduleWorkflowAction
	// From is what it is made from, anything that JSON can say: what was made from the same is left as it is.
	From any
}

// Keeper makes the schedules of one task queue be as they are wanted. Its errors are [agent.CodeUnavailable], around Temporal's own.
type Keeper struct {
	schedules client.ScheduleClient
	queue     string
	data      converter.DataConverter
}

// New returns a keeper of the schedules that start workflows on a queue. data is the client's, which writes memos with it; nil: the SDK's.
func New(schedules client.ScheduleClient, queue string, data converter.DataConverter) (*Keeper, error) {
	switch {
	case schedules == nil:
		return nil, errors.New("clockwork: the schedules are missing")
	case queue == "":
		return nil, errors.New("clockwork: the task queue is missing")
	}
	if data == nil {
		data = converter.GetDefaultDataConverter()
	}
	return &Keeper{schedules: schedules, queue: queue, data: data}, nil
}

// Ensure creates a schedule, or updates one that was made from something else or for another queue; with force any. Idempotent; of two that
// do it at once the slower one does no harm.
func (k *Keeper) Ensure(ctx context.Context, w *Want, force bool) error {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // its runs are in no trace of whoever made it
	if w.ID == "" || len(w.ID) > maxID {
		return agent.Errorf(agent.CodeInvalid, op, "the id of schedule %.140q is %d bytes, want 1 to %d", w.ID, len(w.ID), maxID)
	}
	hash, err := hashOf(w.From)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", w.ID, err)
	}
	action := w.Action
	action.TaskQueue, action.Memo = k.queue, map[string]any{memoHash: hash}
	handle := k.schedules.GetHandle(ctx, w.ID)
	found, err := handle.Describe(ctx)
	if IsNotFound(err) {
		_, err = k.schedules.Create(ctx, client.ScheduleOptions{
			ID: w.ID, Spec: w.Spec, Action: &action, Overlap: w.Policy.Overlap, CatchupWindow: w.Policy.CatchupWindow,
			PauseOnFailure: w.Policy.PauseOnFailure, Paused: w.State.Paused, Note: w.State.Note,
		})
		if err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return named(w.ID, err)
		}
		found, err = handle.Describe(ctx) // somebody else was faster
	}
	if err != nil {
		return named(w.ID, err)
	}
	if !force && k.made(&found.Schedule) == hash && queueOf(&found.Schedule) == k.queue {
		return nil
	}
	return named(w.ID, handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule
			spec, policy, state := w.Spec, w.Policy, w.State
			next.Spec, next.Action, next.Policy, next.State = &spec, &action, &policy, &state
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}))
}

// Check asks Temporal, before w is stored, whether it takes w. The error is [agent.CodeInvalid] if Temporal refuses, with its reason, and nothing has
// happened then. Temporal has no call that only checks: a schedule that is new is created, paused, and belongs to whoever calls Ensure or
// Remove next. One that exists is not touched, whatever a person has changed in it.
func (k *Keeper) Check(ctx context.Context, w *Want) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	action := w.Action
	action.TaskQueue = k.queue // without what it is made from, so that Ensure updates it
	_, err := k.schedules.Create(ctx, client.ScheduleOptions{
		ID: w.ID, Spec: w.Spec, Action: &action, Overlap: w.Policy.Overlap, CatchupWindow: w.Policy.CatchupWindow,
		PauseOnFailure: w.Policy.PauseOnFailure, Paused: true, Note: "about to be stored",
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return nil
	}
	if refusal, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
		return agent.Errorf(agent.CodeInvalid, op, "%s", refusal.Message)
	}
	return named(w.ID, err)
}

// RefusedField returns the field of a schedule that a refusal of Temporal is about: times, unless it is the time zone, of which the server may
// know fewer than this process.
func RefusedField(refusal error, times string) string {
	if strings.Contains(refusal.Error(), "time zone") {
		return "time_zone"
	}
	return times
}

// Remove deletes a schedule; one that is not there is no error.
func (k *Keeper) Remove(ctx context.Context, id string) error {
	err := k.schedules.GetHandle(ctx, id).Delete(ctx)
	if IsNotFound(err) {
		return nil
	}
	return named(id, err)
}

// removeOurs deletes a schedule unless it is for another queue: other runtimes may keep theirs in the namespace.
func (k *Keeper) removeOurs(ctx context.Context, id string) error {
	found, err := k.schedules.GetHandle(ctx, id).Describe(ctx)
	switch {
	case IsNotFound(err):
		return nil
	case err != nil:
		return named(id, err)
	case queueOf(&found.Schedule) != k.queue:
		return nil
	}
	return k.Remove(ctx, id)
}

// IsNotFound reports whether Temporal does not have what it was asked about.
func IsNotFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}

func named(id string, err error) error {
	if err == nil {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, op, "schedule %q: %w", id, err)
}

// hashOf tells one wording of a schedule from another.
func hashOf(from any) (string, error) {
	raw, err := json.Marshal(from)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
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
		if k.data.FromPayload(v, &hash) == nil {
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
