package schedules

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// RunRef names a run of a schedule.
type RunRef struct {
	Tenant     string `json:"tenant"`
	Schedule   string `json:"schedule"`
	RunID      string `json:"run_id"` // of the workflow's first run
	WorkflowID string `json:"workflow_id"`
}

// SubmitResult is the turn of a run, or the reason why it has none.
type SubmitResult struct {
	TurnID       agent.TurnID    `json:"turn_id,omitempty"`
	SessionID    agent.SessionID `json:"session_id,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"` // a limit is reached: submit again after this time
	Refusal      *agent.Failure  `json:"refusal,omitempty"`
	Gone         bool            `json:"gone,omitempty"` // the schedule no longer exists, so nobody waits for the run
}

// defaultRetryAfter is how long a run waits after a limit that does not say when to retry.
const defaultRetryAfter = 30 * time.Second

// Submit records a run and submits its turn. It is idempotent on the run's id.
func (r *Runs) Submit(ctx context.Context, in RunRef) (SubmitResult, error) {
	schedule, run, err := r.Store.BeginScheduleRun(ctx, in.Tenant, in.Schedule, in.RunID, in.WorkflowID)
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeNotFound, agent.CodeConflict, agent.CodeInvalid: // the latter two: the ids are taken by another run, or invalid
		return SubmitResult{Gone: true, Refusal: shortFailure(err)}, nil
	default:
		return SubmitResult{}, err
	}
	receipt, err := r.Inbox.Submit(ctx, runEnvelope(&schedule, &in))
	if err != nil {
		return refusalResult(err)
	}
	if run.TurnID != receipt.TurnID {
		if err := r.Store.BindScheduleRun(ctx, in.Tenant, in.RunID, receipt.TurnID, receipt.SessionID); err != nil {
			return SubmitResult{}, err
		}
	}
	return SubmitResult{TurnID: receipt.TurnID, SessionID: receipt.SessionID}, nil
}

// refusalResult returns a refusal of the inbox as a result: final, or with a time to retry after a limit. Errors that a retry may fix stay errors.
func refusalResult(err error) (SubmitResult, error) {
	switch code := agent.CodeOf(err); {
	case code == agent.CodeRateLimited:
	case code.Retryable() || code == agent.CodeCancelled:
		return SubmitResult{}, err
	default:
		return SubmitResult{Refusal: shortFailure(err)}, nil
	}
	wait := defaultRetryAfter
	if e, ok := errors.AsType[*agent.Error](err); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	return SubmitResult{RetryAfterMS: wait.Milliseconds(), Refusal: shortFailure(err)}, nil
}

// runEnvelope returns the message of a run. It has the rights of the last writer of the schedule.
func runEnvelope(s *agent.StoredSchedule, in *RunRef) agent.Envelope {
	metadata := map[string]any{}
	maps.Copy(metadata, s.Metadata)
	metadata["schedule"], metadata["schedule_run_id"] = s.Name, in.RunID
	channel := cmp.Or(s.Kind, agent.ScheduleRuns)
	return agent.Envelope{
		Channel: channel, Sender: "schedule/" + s.Name, Principal: s.Principal, RequestID: in.RunID,
		Request: agent.TurnRequest{
			Agent: s.Agent, SessionID: RunSession(s.Name, in.RunID), Message: s.Message, History: agent.HistoryFresh, Mode: agent.ModeDurable,
			Model: s.Model, Limits: s.Limits, Channel: channel, OutputSchema: s.OutputSchema, Approvals: s.Approvals,
			IdempotencyKey: "schedule/" + s.Name + "/" + in.RunID,
			Context: agent.InvocationContext{
				Tenant: s.Tenant, UserID: s.UserID, UserRole: s.Principal.Role, Flags: s.Principal.Flags, Metadata: metadata,
			},
		},
	}
}

// RunSession returns the id of the session of a run. No other turns belong to it.
func RunSession(schedule, runID string) agent.SessionID {
	id := "schedule-" + schedule + "-" + runID
	return agent.SessionID(id[:min(len(id), 128)])
}

// shortFailure returns the failure of an error, short enough for a workflow's history.
func shortFailure(err error) *agent.Failure {
	return shortened(agent.FailureOf(err))
}

// shortened returns a copy of a failure with its message clipped and without faults; nil if f is nil.
func shortened(f *agent.Failure) *agent.Failure {
	if f == nil {
		return nil
	}
	short := *f
	short.Message, short.Faults = clip.Bytes(f.Message, maxFailureText), nil
	return &short
}
