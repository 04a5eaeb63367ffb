package runs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// RunRef names a run of a schedule.
type RunRef struct {
	Tenant     string `json:"tenant"`
	Schedule   string `json:"schedule"`
	RunID      string `json:"run_id"` // of the workflow's first run
	WorkflowID string `json:"workflow_id"`
}

// SubmitResult says which turn a run became, or why it did not.
type SubmitResult struct {
	TurnID       agent.TurnID    `json:"turn_id,omitempty"`
	SessionID    agent.SessionID `json:"session_id,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"` // the limits leave no room: ask again then
	Refusal      *agent.Failure  `json:"refusal,omitempty"`
	Gone         bool            `json:"gone,omitempty"` // there is no such schedule any more: nobody waits for the run
}

// waitForRoom is how long a run waits for its limits where they do not say.
const waitForRoom = 30 * time.Second

// SubmitScheduledRun records the run and submits its turn, once for the run's id.
func (a *Activities) SubmitScheduledRun(ctx context.Context, in RunRef) (SubmitResult, error) {
	schedule, run, err := a.Store.BeginScheduleRun(ctx, in.Tenant, in.Schedule, in.RunID, in.WorkflowID)
	switch code := agent.CodeOf(err); {
	case code == agent.CodeNotFound:
		return SubmitResult{Gone: true, Refusal: brief(err)}, nil
	case code == agent.CodeConflict || code == agent.CodeInvalid: // a person named what cannot be
		return SubmitResult{Gone: true, Refusal: brief(err)}, nil
	case err != nil:
		return SubmitResult{}, activities.TemporalError(err)
	}
	e := envelope(&schedule, &in)
	receipt, err := a.Inbox.Submit(ctx, e)
	if err != nil {
		return a.refused(err)
	}
	if run.TurnID != receipt.TurnID {
		if err := a.Store.BindScheduleRun(ctx, in.Tenant, in.RunID, receipt.TurnID, receipt.SessionID); err != nil {
			return SubmitResult{}, activities.TemporalError(err)
		}
	}
	return SubmitResult{TurnID: receipt.TurnID, SessionID: receipt.SessionID}, nil
}

// refused tells what will not do from what is only not possible now.
func (a *Activities) refused(err error) (SubmitResult, error) {
	if agent.CodeOf(err) != agent.CodeRateLimited {
		if agent.CodeOf(err).Retryable() || agent.CodeOf(err) == agent.CodeCancelled {
			return SubmitResult{}, activities.TemporalError(err)
		}
		return SubmitResult{Refusal: brief(err)}, nil
	}
	wait := waitForRoom
	if e, ok := errors.AsType[*agent.Error](err); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	return SubmitResult{RetryAfterMS: wait.Milliseconds(), Refusal: brief(err)}, nil
}

// envelope is the message of a run: from the schedule, with the rights of whoever wrote it last.
func envelope(s *agent.StoredSchedule, in *RunRef) agent.Envelope {
	metadata := map[string]any{}
	maps.Copy(metadata, s.Metadata)
	metadata["schedule"], metadata["schedule_run_id"] = s.Name, in.RunID
	channel := cmp.Or(s.Kind, agent.ScheduleRuns)
	return agent.Envelope{
		Channel: channel, Sender: "schedule/" + s.Name, Principal: s.Principal, RequestID: in.RunID,
		Request: agent.TurnRequest{
			Agent: s.Agent, SessionID: SessionOf(s.Name, in.RunID), Message: s.Message, History: agent.HistoryFresh, Mode: agent.ModeDurable,
			Model: s.Model, Limits: s.Limits, Channel: channel, OutputSchema: s.OutputSchema, Approvals: s.Approvals,
			IdempotencyKey: "schedule/" + s.Name + "/" + in.RunID,
			Context: agent.InvocationContext{
				Tenant: s.Tenant, UserID: s.UserID, UserRole: s.Principal.Role, Flags: s.Principal.Flags, Metadata: metadata,
			},
		},
	}
}

// SessionOf is the session of a run, which nothing else is said in.
func SessionOf(schedule, runID string) agent.SessionID {
	id := "schedule-" + schedule + "-" + runID
	return agent.SessionID(id[:min(len(id), 128)])
}

// brief is a failure as history may hold it.
func brief(err error) *agent.Failure {
	f := agent.FailureOf(err)
	f.Message, f.Faults = clip(f.Message, maxFailure), nil
	return f
}

// clip cuts a text to so many bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}
