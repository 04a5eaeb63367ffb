// Package schedules keeps Temporal's schedules as the definitions of workflows say.
package schedules

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
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	prefix = "schedule/" // of the ids, before tenant/owner/tag/id
	// catchUp is how late a run may start after an outage. What was missed longer ago does not run.
	catchUp = time.Minute
	// memoHash is where a schedule says what it was made from.
	memoHash = "turnstone_schedule"
	// maxSize bounds an id of Temporal.
	maxSize = 900
)

// Definitions are the stored workflows.
type Definitions interface {
	// Workflow returns the newest version for 0; [agent.CodeNotFound] when there is none, or it was deleted.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists newest versions; tenant "*" is all.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
}

// Config is what [New] needs.
type Config struct {
	Schedules   client.ScheduleClient
	Definitions Definitions
	TaskQueue   string                  // empty: the house's
	Data        converter.DataConverter // of the client, which writes memos with it; nil: the SDK's
	Logger      *zap.Logger             // nil: none
}

// Keeper makes schedules be as definitions say. A schedule that a person paused, or changed, in Temporal stays so until the definition says
// something else of it.
type Keeper struct{ Config }

// New checks the configuration.
func New(c Config) (*Keeper, error) {
	if c.Data == nil {
		c.Data = converter.GetDefaultDataConverter()
	}
	switch {
	case c.Schedules == nil:
		return nil, errors.New("schedules: Schedules is missing")
	case c.Definitions == nil:
		return nil, errors.New("schedules: Definitions is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.TaskQueue == "" {
		c.TaskQueue = workflows.TaskQueue
	}
	return &Keeper{c}, nil
}

// ID is the id of a definition's schedule in Temporal.
func ID(key agent.WorkflowKey, id string) string {
	return prefix + key.Tenant + "/" + key.Owner + "/" + key.Tag + "/" + id
}

// Sync makes the schedules of a definition be as its newest version says, whichever version it is given; those that the version before had
// and this one has not are deleted. Idempotent. It does what it can and returns what it could not.
func (k *Keeper) Sync(ctx context.Context, w agent.StoredWorkflow) error {
	newest, err := k.Definitions.Workflow(ctx, w.WorkflowKey, 0)
	var wanted []agent.WorkflowSchedule
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		newest = w
	case err != nil:
		return fmt.Errorf("sync schedules of %q: %w", w.Tag, err)
	case !newest.Deleted:
		if wanted, err = scheduled(&newest); err != nil {
			return err
		}
	}
	var failed []error
	keep := map[string]bool{}
	for i := range wanted {
		keep[wanted[i].ID] = true
		failed = append(failed, k.ensure(ctx, &newest, &wanted[i]))
	}
	for _, version := range []int64{w.Version, w.Version - 1, newest.Version - 1} {
		if version < 1 {
			continue
		}
		before, err := k.Definitions.Workflow(ctx, newest.WorkflowKey, version)
		if err != nil {
			continue // the reconciler finds what is left
		}
		old, err := scheduled(&before)
		if err != nil {
			continue // as above
		}
		for _, s := range old {
			if !keep[s.ID] {
				keep[s.ID] = true // once
				failed = append(failed, k.remove(ctx, ID(newest.WorkflowKey, s.ID)))
			}
		}
	}
	return errors.Join(failed...)
}

func scheduled(w *agent.StoredWorkflow) ([]agent.WorkflowSchedule, error) {
	if len(w.Definition) == 0 || w.Deleted {
		return nil, nil
	}
	var d agent.WorkflowDefinition
	if err := json.Unmarshal(w.Definition, &d); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "sync schedules", "version %d of %q: %w", w.Version, w.Tag, err)
	}
	return d.Schedules, nil
}

// ensure creates a schedule, or updates one that was made from something else.
func (k *Keeper) ensure(ctx context.Context, w *agent.StoredWorkflow, s *agent.WorkflowSchedule) error {
	id := ID(w.WorkflowKey, s.ID)
	if len(id) > maxSize {
		return agent.Errorf(agent.CodeInvalid, "sync schedules", "the id of schedule %q is %d bytes, at most %d", s.ID, len(id), maxSize)
	}
	hash, err := hashOf(s)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", id, err)
	}
	action := k.action(w, s, hash)
	handle := k.Schedules.GetHandle(ctx, id)
	found, err := handle.Describe(ctx)
	if isNotFound(err) {
		_, err = k.Schedules.Create(ctx, client.ScheduleOptions{
			ID: id, Spec: specOf(s), Action: action, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp, Paused: s.Paused,
			Note: "made by workflow " + w.Tag,
		})
		if err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return named(id, err)
		}
		found, err = handle.Describe(ctx) // somebody else was faster
	}
	if err != nil {
		return named(id, err)
	}
	if k.made(&found.Schedule) == hash && queueOf(&found.Schedule) == k.TaskQueue {
		return nil
	}
	return named(id, handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule
			spec := specOf(s)
			next.Spec, next.Action = &spec, action
			next.Policy = &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp}
			next.State = &client.ScheduleState{Paused: s.Paused, Note: "made by workflow " + w.Tag}
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

// hashOf tells one wording of a schedule from another.
func hashOf(s *agent.WorkflowSchedule) (string, error) {
	raw, err := json.Marshal(s)
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

// action starts a run of whatever version is the newest then.
func (k *Keeper) action(w *agent.StoredWorkflow, s *agent.WorkflowSchedule, hash string) *client.ScheduleWorkflowAction {
	req := agent.RunRequest{
		Owner: w.Owner, Tag: w.Tag, Input: s.Input, Context: agent.InvocationContext{Tenant: w.Tenant},
	}
	return &client.ScheduleWorkflowAction{
		ID:       workflows.DefinedWorkflowID(w.WorkflowKey, s.ID), // Temporal puts the time behind it
		Workflow: workflows.DefinedWorkflowType, TaskQueue: k.TaskQueue, Args: []any{req},
		Memo: map[string]any{memoHash: hash}, StaticSummary: "schedule " + s.ID,
	}
}

func specOf(s *agent.WorkflowSchedule) client.ScheduleSpec {
	spec := client.ScheduleSpec{TimeZoneName: s.TimeZone}
	if s.Cron != "" {
		spec.CronExpressions = []string{s.Cron}
	} else {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: time.Duration(s.IntervalSec) * time.Second}}
	}
	return spec
}

func ours(id string) bool { return strings.HasPrefix(id, prefix) }
