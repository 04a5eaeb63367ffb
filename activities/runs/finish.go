package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// FinishInput is how a run ended as its workflow knows it.
type FinishInput struct {
	RunRef

	TurnID  agent.TurnID   `json:"turn_id,omitempty"` // empty: there was no turn
	Status  string         `json:"status,omitempty"`  // empty, or the turn has ended: as the turn's
	Failure *agent.Failure `json:"failure,omitempty"` // likewise
	At      time.Time      `json:"at"`
}

// FinishResult says how the run ended and who is to be notified.
type FinishResult struct {
	Status    string         `json:"status"`
	ResultRef string         `json:"result_ref,omitempty"`
	Error     *agent.Failure `json:"error,omitempty"`
	Notify    []int          `json:"notify,omitempty"` // positions in the schedule's list
}

// FinishScheduledRun stores how a run ended and marks its session inactive.
func (a *Activities) FinishScheduledRun(ctx context.Context, in FinishInput) (FinishResult, error) {
	end := agent.ScheduleEnd{Tenant: in.Tenant, RunID: in.RunID, Status: in.Status, Error: in.Failure, EndedAt: in.At, Keep: a.Keep}
	var answer string
	if in.TurnID != "" {
		t, err := a.Store.Turn(ctx, in.TurnID)
		switch {
		case err != nil && agent.CodeOf(err) != agent.CodeNotFound:
			return FinishResult{}, activities.TemporalError(err)
		case err == nil && t.Output != nil:
			end.Status, end.Error, end.ResultRef, answer = string(t.Output.Status), t.Output.Error, t.Output.ResultRef, t.Output.Output
		}
	}
	if end.Status == "" { // the turn is gone, or was never recorded
		end.Status = string(agent.TurnFailed)
		end.Error = cmp.Or(end.Error, &agent.Failure{Type: string(agent.StopTerminated), Message: "the turn left no result"})
	}
	end.Output, end.Digest = clip(answer, maxOutput), digest(answer, end.Error)
	schedule, err := a.Store.Schedule(ctx, in.Tenant, in.Schedule)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
	case err != nil:
		return FinishResult{}, activities.TemporalError(err)
	default:
		end.Quiet = isQuiet(&schedule.Schedule, end.Status, answer)
		if !end.Quiet {
			end.Notices, end.IfChanged = wanted(&schedule.Schedule, end.Status)
		}
	}
	notices, err := a.Store.FinishScheduleRun(ctx, end)
	if err != nil {
		return FinishResult{}, activities.TemporalError(err)
	}
	out := FinishResult{Status: end.Status, ResultRef: end.ResultRef}
	if end.Error != nil {
		out.Error = new(*end.Error)
		out.Error.Message, out.Error.Faults = clip(end.Error.Message, maxFailure), nil
	}
	for _, n := range notices {
		out.Notify = append(out.Notify, n.Position)
	}
	return out, nil
}

// isQuiet reports whether a heartbeat had nothing to say.
func isQuiet(s *agent.Schedule, status, answer string) bool {
	return s.Kind == agent.ScheduleHeartbeat && status == string(agent.TurnCompleted) &&
		strings.TrimSpace(answer) == cmp.Or(strings.TrimSpace(s.Quiet), agent.HeartbeatQuiet)
}

// wanted lists who is to be notified of such an end, and who if it is another than the last one.
func wanted(s *agent.Schedule, status string) (notices, ifChanged []agent.ScheduleNotice) {
	for i := range s.Notify {
		kind, target := s.Notify[i].Target()
		n := agent.ScheduleNotice{Position: i, Kind: kind, Target: target}
		ended := status == string(agent.TurnCompleted) || status == string(agent.TurnFailed)
		switch on := s.Notify[i].On; {
		case on == agent.NotifyChange && ended:
			ifChanged = append(ifChanged, n)
		case on == "", on == agent.NotifyAlways,
			on == agent.NotifySuccess && status == string(agent.TurnCompleted),
			on == agent.NotifyFailure && (status == string(agent.TurnFailed) || status == agent.ScheduleSkipped):
			notices = append(notices, n)
		}
	}
	return notices, ifChanged
}

// digest tells one end from another.
func digest(answer string, f *agent.Failure) string {
	h := sha256.New()
	h.Write([]byte(answer))
	if f != nil {
		h.Write([]byte("\x00" + f.Type + "\x00" + f.Message))
	}
	return hex.EncodeToString(h.Sum(nil))
}
