package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

// maxPartial bounds the growing answer that a query shows, in bytes; the whole is in the stream.
const maxPartial = 16 << 10

// childTurn is the state of a turn that sends token batches to its workflow: the answer so far, and the calls that wait for a person.
type childTurn struct {
	turn    agent.TurnID
	step    int // of the partial text, as attempt and batch are
	attempt int64
	batch   int
	partial string
	asked   int // the step whose calls wait
	waiting []waitingCall
}

// waitingCall is a call that waits for a person. The turn does not report whether it accepted a decision, so a call whose decision was passed
// on is kept until the turn continues.
type waitingCall struct {
	agent.PendingApproval

	sent agent.DecisionKind
}

// receive adds a batch and reports whether it was new: not of another turn, of a void attempt, or received before.
func (h *childTurn) receive(b agent.TokenBatch) bool {
	if b.TurnID != h.turn {
		return false
	}
	if len(b.Pending) > 0 {
		return h.pause(b)
	}
	switch {
	case b.Step < h.step, b.Step == h.step && b.Attempt < h.attempt:
		return false
	case b.Step > h.step || b.Attempt > h.attempt: // a newer attempt of a step voids what the older one said
		h.step, h.attempt, h.partial = b.Step, b.Attempt, ""
	case b.Batch <= h.batch:
		return false
	}
	h.batch = b.Batch
	if b.Step > h.asked { // nothing of a step runs before all of its calls are decided
		h.waiting = nil
	}
	if room := maxPartial - len(h.partial); room < len(b.Text) {
		h.partial += strings.ToValidUTF8(b.Text[:room], "")
	} else {
		h.partial += b.Text
	}
	return true
}

func (h *childTurn) pause(b agent.TokenBatch) bool {
	if b.Step <= h.asked {
		return false
	}
	h.asked, h.waiting = b.Step, nil
	for _, p := range b.Pending {
		h.waiting = append(h.waiting, waitingCall{PendingApproval: p})
	}
	return true
}

// pending are the calls for which nobody has sent a decision.
func (h *childTurn) pending() []agent.PendingApproval {
	left := []agent.PendingApproval{}
	for _, w := range h.waiting {
		if w.sent == "" {
			left = append(left, w.PendingApproval)
		}
	}
	return left
}

// awaits reports whether an approval is among those that the turn waits for.
func (h *childTurn) awaits(approvalID string) bool {
	return slices.ContainsFunc(h.waiting, func(w waitingCall) bool { return w.ApprovalID == approvalID })
}

// mayAwait reports whether a decision about an approval may be for the turn: the turn waits for it, or it is not known what the turn waits for, because
// the signal with that is best effort.
func (h *childTurn) mayAwait(approvalID string) bool {
	return h.awaits(approvalID) || (h.turn != "" && len(h.pending()) == 0)
}

// passOn sends a decision to the turn, which validates it.
func (h *childTurn) passOn(ctx workflow.Context, d agent.Decision) error {
	to := h.turn
	if err := workflow.SignalExternalWorkflow(ctx, to.WorkflowID(), "", UpdateDecide, d).Get(ctx, nil); err != nil {
		return fmt.Errorf("pass decision on to %s: %w", to, err)
	}
	for i := range h.waiting {
		if h.waiting[i].ApprovalID == d.ApprovalID {
			h.waiting[i].sent = d.Decision
		}
	}
	return nil
}
