package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// maxPause bounds the pause before the next attempt, even if the receiver asks for a longer one.
const maxPause = time.Minute

// noticeNamespace is the namespace of the UUIDs made from notices.
var noticeNamespace = uuid.MustParse("6a3c2a0e-54b7-5c1e-9f0e-3f0d0c7e8b15") //nolint:gochecknoglobals // a constant in all but syntax

// NotifyInput names a notice of a run.
type NotifyInput struct {
	RunRef

	Position int `json:"position"`
}

// NotifyResult reports whether a notice was sent. A notice that could not be sent does not fail its run.
type NotifyResult struct {
	Sent bool `json:"sent"`
}

// RetryError is the error of an attempt to notify when another attempt may help.
type RetryError struct {
	After time.Duration // the pause that the receiver asked for; 0: none
	Err   error
}

func (e *RetryError) Error() string { return clip.Bytes(e.Err.Error(), maxFailureText) }

func (e *RetryError) Unwrap() error { return e.Err }

// webhookBody is the body of a request to a webhook.
type webhookBody struct {
	Schedule  string          `json:"schedule"`
	Tenant    string          `json:"tenant"`
	Kind      string          `json:"kind"`
	RunID     string          `json:"run_id"`
	TurnID    agent.TurnID    `json:"turn_id"`
	SessionID agent.SessionID `json:"session_id"`
	Status    string          `json:"status"`
	Output    string          `json:"output"` // the beginning; result_ref names the whole result
	ResultRef string          `json:"result_ref"`
	Error     *agent.Failure  `json:"error"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   *time.Time      `json:"ended_at"`
}

// Notify makes one attempt to send a notice, numbered from 1, and records the outcome. The error is a [RetryError] if another attempt may help.
func (r *Runs) Notify(ctx context.Context, in NotifyInput, attempt int) (NotifyResult, error) {
	run, err := r.Store.ScheduleRun(ctx, in.Tenant, in.RunID)
	if agent.CodeOf(err) == agent.CodeNotFound { // deleted with its schedule
		return NotifyResult{}, nil
	} else if err != nil {
		return NotifyResult{}, err
	}
	notice := agent.ScheduleNotice{Position: in.Position, Attempts: attempt}
	for _, n := range run.Notices {
		if n.Position == in.Position {
			notice.Kind, notice.Target, notice.Status = n.Kind, n.Target, n.Status
		}
	}
	if notice.Status == agent.NoticeSent {
		return NotifyResult{Sent: true}, nil
	}
	sendErr := r.send(ctx, &run, &notice)
	if err := r.recordOutcome(ctx, &run, notice, sendErr); err != nil {
		return NotifyResult{}, err
	}
	if sendErr != nil && mayRepeat(sendErr, notice.Kind) {
		return NotifyResult{}, retryError(sendErr)
	}
	return NotifyResult{Sent: sendErr == nil}, nil
}

// recordOutcome stores the outcome of an attempt to send a notice, even if the attempt has used up the time of ctx.
func (r *Runs) recordOutcome(ctx context.Context, run *agent.ScheduleRun, notice agent.ScheduleNotice, sendErr error) error {
	notice.Status = agent.NoticeSent
	if sendErr != nil {
		notice.Status, notice.Error = agent.NoticeFailed, shortFailure(sendErr)
		if errors.Is(sendErr, notifications.ErrUnknown) {
			notice.Error.Type = agent.OutcomeUnknown
		}
		r.Logger.Warn("notice of a scheduled run", zap.String("schedule", run.Schedule), zap.String("run", run.RunID),
			zap.String("kind", notice.Kind), zap.Int("attempt", notice.Attempts), zap.Error(sendErr))
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	return r.Store.NoteNotice(ctx, run.Tenant, run.RunID, notice)
}

// send sends a notice, if the schedule still names its target.
func (r *Runs) send(ctx context.Context, run *agent.ScheduleRun, notice *agent.ScheduleNotice) error {
	s, err := r.Store.Schedule(ctx, run.Tenant, run.Schedule)
	if err != nil {
		return err
	}
	if notice.Position < 0 || notice.Position >= len(s.Notify) {
		return agent.Invalid("notify", "the schedule names no such target any more")
	}
	n := &s.Notify[notice.Position]
	if kind, target := n.Target(); kind != notice.Kind || target != notice.Target {
		return agent.Invalid("notify", "the schedule names another target by now")
	}
	key := uuid.NewSHA1(noticeNamespace, fmt.Appendf(nil, "%s\x00%d", run.RunID, notice.Position)).String()
	switch {
	case n.Webhook != nil && r.Webhooks != nil:
		return r.callWebhook(ctx, run, n.Webhook, key)
	case n.Email != nil && r.Mailer != nil:
		mail := notifications.Mail{To: n.Email.To, Subject: subject(run), Body: mailBody(run), ID: key}
		return r.Mailer.Send(ctx, mail, unmarked)
	case n.Telegram != nil && r.People != nil:
		return r.People.Notify(ctx, run.Tenant, n.Telegram.User, clip.Bytes(subject(run)+"\n\n"+summary(run), maxChatText))
	default:
		return agent.Invalid("notify", "this runtime notifies nobody by %s: it is not configured", notice.Kind)
	}
}

// unmarked is the mark of notices, which are not marked before they are sent: two notices with the same key are better than none.
func unmarked() error { return nil }

func (r *Runs) callWebhook(ctx context.Context, run *agent.ScheduleRun, target *agent.HookTarget, key string) error {
	body, err := json.Marshal(webhookBody{
		Schedule: run.Schedule, Tenant: run.Tenant, Kind: run.Kind, RunID: run.RunID, TurnID: run.TurnID, SessionID: run.SessionID,
		Status: run.Status, Output: run.Output, ResultRef: run.ResultRef, Error: run.Error, StartedAt: run.StartedAt, EndedAt: run.EndedAt,
	})
	if err != nil {
		return agent.Errorf(agent.CodeInvalid, "", "%w", err)
	}
	ctx, stop := context.WithTimeout(ctx, hookTimeout)
	defer stop()
	answer, err := r.Webhooks.Send(ctx, notifications.Webhook{
		Tenant: run.Tenant, Method: "POST", URL: target.URL, Header: map[string]string{"Content-Type": "application/json"}, Body: body,
		Auth: target.Auth, Key: key,
	}, unmarked)
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

// mayRepeat reports whether another attempt may help. A webhook recognises a repeated request by its key; a reader of mail does not.
func mayRepeat(err error, kind string) bool {
	if errors.Is(err, notifications.ErrUnknown) {
		return kind == "webhook"
	}
	return agent.CodeOf(err).Retryable()
}

// retryError returns a [RetryError] with the pause that the receiver asked for, at most maxPause.
func retryError(err error) error {
	var pause time.Duration
	if e, ok := errors.AsType[*agent.Error](err); ok {
		pause = min(e.RetryAfter, maxPause)
	}
	return &RetryError{After: pause, Err: err}
}

func subject(run *agent.ScheduleRun) string {
	return fmt.Sprintf("Schedule %s: %s", run.Schedule, run.Status)
}

// summary returns the failure or the answer of a run.
func summary(run *agent.ScheduleRun) string {
	switch {
	case run.Error != nil:
		return strings.TrimSpace(run.Error.Type + ": " + run.Error.Message + "\n\n" + run.Output)
	case run.Output == "":
		return "It gave no answer."
	default:
		return run.Output
	}
}

// mailBody returns the text of a mail about a run.
func mailBody(run *agent.ScheduleRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nrun      %s\nturn     %s\nsession  %s\nstarted  %s\n", summary(run), run.RunID, run.TurnID, run.SessionID,
		run.StartedAt.Format(time.RFC3339))
	if run.EndedAt != nil {
		fmt.Fprintf(&b, "ended    %s\n", run.EndedAt.Format(time.RFC3339))
	}
	if run.ResultRef != "" {
		fmt.Fprintf(&b, "result   %s\n", run.ResultRef)
	}
	return b.String()
}
