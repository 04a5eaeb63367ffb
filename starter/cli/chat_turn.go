package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// cancelTimeout bounds the request that cancels a turn after Ctrl-C.
const cancelTimeout = 5 * time.Second

// chatTurn is a turn in progress.
type chatTurn struct {
	*chatSession

	id         agent.TurnID
	printer    *cmdline.TurnPrinter
	pending    []agent.Approval
	isWaiting  bool
	inputEnded bool // nobody can answer approvals
	cancelling bool
	progress   *spinner // shown until the turn has output
}

func (t *chatTurn) run(ctx context.Context, events <-chan followedEvent) error {
	t.progress = t.startSpinner("waiting for the agent")
	defer t.progress.stop()
	for {
		// Read a decision only while the turn waits for it: somebody else may decide first.
		var answers <-chan string
		if t.needsDecision() {
			answers = t.lines.next()
		}
		select {
		case f, ok := <-events:
			if !ok {
				return fmt.Errorf("the events of turn %s ended before the turn", t.id)
			}
			if f.err != nil {
				return f.err
			}
			if done, err := t.showEvent(&f.event); done {
				return err
			}
		case line, ok := <-answers:
			if !ok {
				t.inputEnded = true
				continue
			}
			if err := t.submitDecision(ctx, line); err != nil {
				return err
			}
		case <-t.interrupts:
			if t.cancelling {
				return errInterrupted
			}
			if err := t.cancel(ctx); err != nil {
				return err
			}
		}
	}
}

// needsDecision reports whether the turn waits for a decision that a person at the terminal can make.
func (t *chatTurn) needsDecision() bool { return t.isWaiting && len(t.pending) > 0 && !t.inputEnded }

// cancel asks the turn to stop. The turn has stopped when its terminal event arrives.
func (t *chatTurn) cancel(ctx context.Context) error {
	t.cancelling = true
	t.progress.stop()
	t.printer.Note("cancelling turn %s — Ctrl-C again leaves at once", t.id)
	ctx, stop := context.WithTimeout(ctx, cancelTimeout)
	defer stop()
	return t.client.Cancel(ctx, t.id, agent.CancelRequest{Reason: "interrupted at the terminal"})
}

// showEvent shows an event. done is true for the terminal event, with the outcome of the turn in err.
func (t *chatTurn) showEvent(e *agent.Event) (done bool, err error) {
	isProgress := e.Type == agent.EventRoute || e.Type == agent.EventStatus && e.Status != agent.StatusWaiting && !e.Terminal()
	if !isProgress {
		t.progress.stop()
	}
	t.printer.Show(e)
	switch e.Type {
	case agent.EventApprovalRequested:
		if e.Approval != nil {
			t.pending = append(t.pending, *e.Approval)
		}
	case agent.EventApprovalResolved:
		if e.Approval != nil {
			t.pending = slices.DeleteFunc(t.pending, func(p agent.Approval) bool { return p.ApprovalID == e.Approval.ApprovalID })
		}
	case agent.EventStatus:
		t.isWaiting = e.Status == agent.StatusWaiting
	default:
	}
	if t.needsDecision() {
		t.promptForDecision()
	}
	if !e.Terminal() {
		return false, nil
	}
	printEnd := t.printEnd
	if printEnd == nil {
		printEnd = t.printResultJSON
	}
	if err := printEnd(e); err != nil {
		return true, err
	}
	return true, turnOutcome(e)
}

// printResultJSON prints the result of a turn with --output json.
func (s *chatSession) printResultJSON(e *agent.Event) error {
	if s.output != "json" || e.Result == nil {
		return nil
	}
	return s.printJSON(e.Result)
}

func (t *chatTurn) promptForDecision() {
	fmt.Fprintf(t.errOut, "  %s: [a]pprove, [e]dit {json}, [r]eject {why}, or an answer with [=] {text}: ", t.pending[0].ToolName)
}

// submitDecision sends the decision in a line of input about the oldest pending approval. If the line is no decision it prompts again.
func (t *chatTurn) submitDecision(ctx context.Context, line string) error {
	d, ok := parseDecision(line)
	if !ok {
		t.promptForDecision()
		return nil
	}
	d.ApprovalID = t.pending[0].ApprovalID
	err := t.client.Decide(ctx, t.id, d)
	switch agent.CodeOf(err) {
	case "":
		t.pending = t.pending[1:]
	case agent.CodeConflict: // somebody else has decided
		t.printer.Note("! %v", err)
		t.pending = t.pending[1:]
	case agent.CodeInvalid:
		t.printer.Note("! %v", err)
	default:
		return err
	}
	if len(t.pending) > 0 {
		t.promptForDecision()
	}
	return nil
}

// parseDecision parses lines such as "a", "approve", "e {json}", "r why" and "= text".
func parseDecision(line string) (agent.Decision, bool) {
	word, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	argument = strings.TrimSpace(argument)
	switch strings.ToLower(word) {
	case "a", "y", "yes", "approve":
		return agent.Decision{Decision: agent.DecisionApprove}, true
	case "r", "n", "no", "reject":
		return agent.Decision{Decision: agent.DecisionReject, Message: argument}, true
	case "e", "edit":
		return agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(argument)}, json.Valid([]byte(argument))
	case "=", "respond":
		return agent.Decision{Decision: agent.DecisionRespond, Message: argument}, argument != ""
	default:
		return agent.Decision{}, false
	}
}
