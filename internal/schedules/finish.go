package schedules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// FinishInput is the end of a run as its workflow knows it.
type FinishInput struct {
	RunRef

	TurnID  agent.TurnID   `json:"turn_id,omitempty"` // empty: the run has no turn
	Status  string         `json:"status,omitempty"`  // used if the turn has no result
	Failure *agent.Failure `json:"failure,omitempty"` // likewise
	At      time.Time      `json:"at"`
}

// FinishResult is the end of a run and the notices to be sent.
type FinishResult struct {
	Status    string         `json:"status"`
	ResultRef string         `json:"result_ref,omitempty"`
	Error     *agent.Failure `json:"error,omitempty"`
	Notify    []int          `json:"notify,omitempty"` // positions in the schedule's list
}

// Finish stores how a run ended and marks its session inactive.
func (r *Runs) Finish(ctx context.Context, in FinishInput) (FinishResult, error) {
	end := agent.ScheduleEnd{Tenant: in.Tenant, RunID: in.RunID, Status: in.Status, Error: in.Failure, EndedAt: in.At, Keep: r.Keep}
	answer, err := r.turnAnswer(ctx, in.TurnID, &end)
	if err != nil {
		return FinishResult{}, err
	}
	end.Output, end.Digest = clip.Bytes(answer, maxOutput), resultDigest(answer, end.Error)
	schedule, err := r.Store.Schedule(ctx, in.Tenant, in.Schedule)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
	case err != nil:
		return FinishResult{}, err
	default:
		end.Quiet = isQuiet(&schedule.Schedule, end.Status, answer)
		if !end.Quiet {
			end.Notices, end.IfChanged = noticesFor(&schedule.Schedule, end.Status)
		}
	}
	notices, err := r.Store.FinishScheduleRun(ctx, end)
	if err != nil {
		return FinishResult{}, err
	}
	out := FinishResult{Status: end.Status, ResultRef: end.ResultRef, Error: shortened(end.Error)}
	for _, n := range notices {
		out.Notify = append(out.Notify, n.Position)
	}
	return out, nil
}

// turnAnswer returns the answer of a run's turn and puts how the turn ended into end.
func (r *Runs) turnAnswer(ctx context.Context, id agent.TurnID, end *agent.ScheduleEnd) (answer string, err error) {
	if id != "" {
		t, err := r.Store.Turn(ctx, id)
		switch {
		case err != nil && agent.CodeOf(err) != agent.CodeNotFound:
			return "", err
		case err == nil && t.Output != nil:
			end.Status, end.Error, end.ResultRef, answer = string(t.Output.Status), t.Output.Error, t.Output.ResultRef, t.Output.Output
		}
	}
	if end.Status == "" { // the turn was deleted, or never recorded
		end.Status = string(agent.TurnFailed)
		end.Error = cmp.Or(end.Error, &agent.Failure{Type: string(agent.StopTerminated), Message: "the turn left no result"})
	}
	return answer, nil
}

// isQuiet reports whether a heartbeat completed with its quiet answer, of which nobody is notified.
func isQuiet(s *agent.Schedule, status, answer string) bool {
	return s.Kind == agent.ScheduleHeartbeat && status == string(agent.TurnCompleted) &&
		strings.TrimSpace(answer) == cmp.Or(strings.TrimSpace(s.Quiet), agent.HeartbeatQuiet)
}

// noticesFor returns the notices for a run with that status, and those to be sent only if the result differs from that of the run before.
func noticesFor(s *agent.Schedule, status string) (notices, ifChanged []agent.ScheduleNotice) {
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

// resultDigest returns a hash of an answer and its failure, by which results are compared.
func resultDigest(answer string, f *agent.Failure) string {
	h := sha256.New()
	h.Write([]byte(answer))
	if f != nil {
		h.Write([]byte("\x00" + f.Type + "\x00" + f.Message))
	}
	return hex.EncodeToString(h.Sum(nil))
}
