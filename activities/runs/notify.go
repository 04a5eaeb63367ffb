package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
)

// maxPause is how long the next attempt waits at most, also where the other side asks for more.
const maxPause = time.Minute

// noticeNamespace makes keys out of notices.
var noticeNamespace = uuid.MustParse("6a3c2a0e-54b7-5c1e-9f0e-3f0d0c7e8b15") //nolint:gochecknoglobals // a constant in all but syntax

// NotifyInput names a notice of a run.
type NotifyInput struct {
	RunRef

	Position int `json:"position"`
}

// NotifyResult says whether it was sent. One that was not is no failure of the run.
type NotifyResult struct {
	Sent bool `json:"sent"`
}

// hookBody is what a webhook gets.
type hookBody struct {
	Schedule  string          `json:"schedule"`
	Tenant    string          `json:"tenant"`
	Kind      string          `json:"kind"`
	RunID     string          `json:"run_id"`
	TurnID    agent.TurnID    `json:"turn_id"`
	SessionID agent.SessionID `json:"session_id"`
	Status    string          `json:"status"`
	Output    string          `json:"output"` // the beginning of it; result_ref has the rest
	ResultRef string          `json:"result_ref"`
	Error     *agent.Failure  `json:"error"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   *time.Time      `json:"ended_at"`
}

// NotifyScheduledRun makes one attempt to send one notice and stores what became of it. An error says that another attempt may help.
func (a *Activities) NotifyScheduledRun(ctx context.Context, in NotifyInput) (NotifyResult, error) {
	run, err := a.Store.ScheduleRun(ctx, in.Tenant, in.RunID)
	if agent.CodeOf(err) == agent.CodeNotFound { // forgotten, with its schedule
		return NotifyResult{}, nil
	} else if err != nil {
		return NotifyResult{}, activities.TemporalError(err)
	}
	note := agent.ScheduleNotice{Position: in.Position, Attempts: 1}
	if activity.IsActivity(ctx) {
		note.Attempts = int(activity.GetInfo(ctx).Attempt)
	}
	for _, n := range run.Notices {
		if n.Position == in.Position {
			note.Kind, note.Target, note.Status = n.Kind, n.Target, n.Status
		}
	}
	if note.Status == agent.NoticeSent {
		return NotifyResult{Sent: true}, nil
	}
	failure := a.send(ctx, &run, &note)
	note.Status = agent.NoticeSent
	if failure != nil {
		note.Status, note.Error = agent.NoticeFailed, brief(failure)
		if errors.Is(failure, definitions.ErrUnknown) {
			note.Error.Type = agent.OutcomeUnknown
		}
		a.Logger.Warn("notice of a scheduled run", zap.String("schedule", run.Schedule), zap.String("run", run.RunID),
			zap.String("kind", note.Kind), zap.Int("attempt", note.Attempts), zap.Error(failure))
	}
	// What became of it is told also when the attempt took all the time that it had.
	telling, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if err := a.Store.NoteNotice(telling, in.Tenant, in.RunID, note); err != nil {
		return NotifyResult{}, activities.TemporalError(err)
	}
	if failure != nil && mayRepeat(failure, note.Kind) {
		return NotifyResult{}, paused(failure)
	}
	return NotifyResult{Sent: failure == nil}, nil
}

// send sends a notice, if the schedule still names its target.
func (a *Activities) send(ctx context.Context, run *agent.ScheduleRun, note *agent.ScheduleNotice) error {
	s, err := a.Store.Schedule(ctx, run.Tenant, run.Schedule)
	if err != nil {
		return err
	}
	if note.Position < 0 || note.Position >= len(s.Notify) {
		return agent.Invalid("notify", "the schedule names no such target any more")
	}
	n := &s.Notify[note.Position]
	if kind, target := n.Target(); kind != note.Kind || target != note.Target {
		return agent.Invalid("notify", "the schedule names another target by now")
	}
	key := uuid.NewSHA1(noticeNamespace, fmt.Appendf(nil, "%s\x00%d", run.RunID, note.Position)).String()
	nothing := func() error { return nil } // a second mail of the same id is better than none
	switch {
	case n.Webhook != nil && a.Webhooks != nil:
		return a.post(ctx, run, n.Webhook, key)
	case n.Email != nil && a.Mailer != nil:
		mail := definitions.Mail{To: n.Email.To, Subject: subject(run), Body: report(run), ID: key}
		return a.Mailer.Send(ctx, mail, nothing)
	case n.Telegram != nil && a.People != nil:
		return a.People.Notify(ctx, run.Tenant, n.Telegram.User, clip(subject(run)+"\n\n"+gist(run), maxChatText))
	default:
		return agent.Invalid("notify", "this runtime notifies nobody by %s: it is not configured", note.Kind)
	}
}

func (a *Activities) post(ctx context.Context, run *agent.ScheduleRun, hook *agent.HookTarget, key string) error {
	body, err := json.Marshal(hookBody{
		Schedule: run.Schedule, Tenant: run.Tenant, Kind: run.Kind, RunID: run.RunID, TurnID: run.TurnID, SessionID: run.SessionID,
		Status: run.Status, Output: run.Output, ResultRef: run.ResultRef, Error: run.Error, StartedAt: run.StartedAt, EndedAt: run.EndedAt,
	})
	if err != nil {
		return agent.Errorf(agent.CodeInvalid, "", "%w", err)
	}
	ctx, stop := context.WithTimeout(ctx, a.HookTimeout)
	defer stop()
	answer, err := a.Webhooks.Send(ctx, definitions.Webhook{
		Tenant: run.Tenant, Method: "POST", URL: hook.URL, Header: map[string]string{"Content-Type": "application/json"}, Body: body,
		Auth: hook.Auth, Key: key,
	}, func() error { return nil })
	if err != nil {
		return err
	}
	switch status := answer.Status; {
	case status >= 200 && status < 300:
		return nil
	case status == 429 || status >= 500:
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: answer.RetryAfter, Err: fmt.Errorf("the webhook answered %d", status)}
	default:
		return agent.Errorf(agent.CodeDenied, "", "the webhook answered %d", status)
	}
}

// mayRepeat reports whether another attempt may help. A webhook knows a repeated request by its key; whoever reads mail does not.
func mayRepeat(err error, kind string) bool {
	if errors.Is(err, definitions.ErrUnknown) {
		return kind == "webhook"
	}
	return agent.CodeOf(err).Retryable()
}

// paused is an error after which the other side has the time that it asked for.
func paused(err error) error {
	var wait time.Duration
	if e, ok := errors.AsType[*agent.Error](err); ok {
		wait = min(e.RetryAfter, maxPause)
	}
	return temporal.NewApplicationErrorWithOptions(clip(err.Error(), maxFailure), string(agent.CodeOf(err)),
		temporal.ApplicationErrorOptions{NextRetryDelay: wait})
}

func subject(run *agent.ScheduleRun) string {
	return fmt.Sprintf("Schedule %s: %s", run.Schedule, run.Status)
}

// gist is what a person wants to know first.
func gist(run *agent.ScheduleRun) string {
	switch {
	case run.Error != nil:
		return strings.TrimSpace(run.Error.Type + ": " + run.Error.Message + "\n\n" + run.Output)
	case run.Output == "":
		return "It gave no answer."
	default:
		return run.Output
	}
}

// report is the text of a mail.
func report(run *agent.ScheduleRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nrun      %s\nturn     %s\nsession  %s\nstarted  %s\n", gist(run), run.RunID, run.TurnID, run.SessionID,
		run.StartedAt.Format(time.RFC3339))
	if run.EndedAt != nil {
		fmt.Fprintf(&b, "ended    %s\n", run.EndedAt.Format(time.RFC3339))
	}
	if run.ResultRef != "" {
		fmt.Fprintf(&b, "result   %s\n", run.ResultRef)
	}
	return b.String()
}
