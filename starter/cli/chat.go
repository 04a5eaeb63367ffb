package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// cancelPatience bounds the request that a Ctrl-C makes.
const cancelPatience = 5 * time.Second

func (a *app) chatCommand() *cobra.Command {
	var f turnFlags
	cmd := &cobra.Command{
		Use: "chat [message]", Short: "Ask an agent and watch it answer",
		Long: `Ask an agent and watch it answer: the text on standard output as it is written, tool calls and notes on standard error.
Without a message every line of input is one, in one session, until the input ends or a line says /quit.

Ctrl-C cancels the turn, a second one leaves at once. A lost connection is made again where it broke. When the agent wants to
run a tool that needs an approval, you are asked for it.`,
		Example: `  starter chat "fetch flights from NYC to LAX, sort by price, show top 3"
  starter chat --session trip-1 "and the ones under $300?"
  starter chat --agent analyst
  starter chat --draft analyst.yaml "fetch flights"
  starter chat "fetch flights" --output json | jq .result_ref`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			s := chatSession{app: a, client: c, flags: f}
			if len(args) > 0 {
				return s.turn(cmd.Context(), strings.Join(args, " "))
			}
			return s.loop(cmd.Context())
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.draft, "draft", "", "file of an AgentInstance that answers without being applied; it is read for every message")
	return cmd
}

// chatSession is one run of chat.
type chatSession struct {
	*app

	client *client.Client
	flags  turnFlags
	ended  func(e *agent.Event) error // what is printed after the last event of a turn; nil: with --output json, its result
}

// loop asks line by line. A turn that fails or is cancelled does not end it; what it returns is the last turn's outcome.
func (s *chatSession) loop(ctx context.Context) error {
	if s.flags.session == "" {
		s.flags.session = "cli-" + uuid.NewString()
	}
	fmt.Fprintf(s.errOut, "session %s — /quit ends it\n", s.flags.session)
	var last error
	for {
		fmt.Fprint(s.errOut, "> ")
		select {
		case line, ok := <-s.lines.next():
			text := strings.TrimSpace(line)
			switch {
			case !ok || text == "/quit":
				fmt.Fprintln(s.errOut)
				return last
			case text == "":
				continue
			}
			last = s.turn(ctx, text)
			if last != nil && exitCode(last) != exitFailed && exitCode(last) != exitCancelled {
				return last
			}
		case <-s.interrupts:
			fmt.Fprintln(s.errOut)
			return last
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followed is one step of following, on its way to the loop that also listens for interrupts.
type followed struct {
	event agent.Event
	err   error
}

// turn runs one turn to its end.
func (s *chatSession) turn(ctx context.Context, message string) error {
	draft, err := readDraft(s.flags.draft)
	if err != nil {
		return err
	}
	return s.follow(ctx, func(ctx context.Context) (agent.Receipt, error) {
		return s.client.Try(ctx, draft, s.flags.request(message))
	})
}

// readDraft returns the document in a file of --draft, or nothing if the flag is not given.
func readDraft(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	draft, err := os.ReadFile(file)
	if err != nil {
		return "", usageError{fmt.Errorf("--draft: %w", err)}
	}
	if strings.TrimSpace(string(draft)) == "" {
		return "", usageError{fmt.Errorf("--draft: %s is empty", file)}
	}
	return string(draft), nil
}

// follow submits a turn and shows it to its end.
func (s *chatSession) follow(ctx context.Context, start func(context.Context) (agent.Receipt, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	receipt, interrupted, err := s.startTurn(ctx, start)
	if err != nil {
		return err
	}
	events := make(chan followed)
	go func() {
		defer close(events)
		for e, err := range s.client.Follow(ctx, receipt.TurnID, 0) {
			select {
			case events <- followed{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	answer := s.out
	if s.output == "json" {
		answer = io.Discard
	}
	t := chatTurn{chatSession: s, id: receipt.TurnID, screen: cmdline.NewTurnPrinter(answer, s.errOut)}
	t.screen.Program = s.program
	if interrupted {
		if err := t.cancel(ctx); err != nil {
			return err
		}
	}
	return t.run(ctx, events)
}

// startTurn submits. An interrupt meanwhile is remembered, because the turn may exist before its receipt arrives; a second one
// leaves.
func (s *chatSession) startTurn(
	ctx context.Context, start func(context.Context) (agent.Receipt, error),
) (r agent.Receipt, interrupted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = start(ctx)
	}()
	for {
		select {
		case <-done:
			return r, interrupted, err
		case <-s.interrupts:
			if interrupted {
				cancel()
				<-done
				return r, true, errInterrupted
			}
			interrupted = true
		}
	}
}

// chatTurn is a turn in progress.
type chatTurn struct {
	*chatSession

	id         agent.TurnID
	screen     *cmdline.TurnPrinter
	pending    []agent.Approval
	waiting    bool
	mute       bool // the input has ended: nobody can be asked
	cancelling bool
	progress   *spinner // until the first words
}

func (t *chatTurn) run(ctx context.Context, events <-chan followed) error {
	t.progress = t.startSpinner("waiting for the agent")
	defer t.progress.stop()
	for {
		// Only ask when the turn waits, and only until it goes on: somebody else may decide first.
		var answers <-chan string
		if t.waiting && len(t.pending) > 0 && !t.mute {
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
			if done, err := t.take(&f.event); done {
				return err
			}
		case line, ok := <-answers:
			if !ok {
				t.mute = true
				continue
			}
			if err := t.answer(ctx, line); err != nil {
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

// cancel asks the turn to stop; its events tell when it has.
func (t *chatTurn) cancel(ctx context.Context) error {
	t.cancelling = true
	t.progress.stop()
	t.screen.Note("cancelling turn %s — Ctrl-C again leaves at once", t.id)
	ctx, stop := context.WithTimeout(ctx, cancelPatience)
	defer stop()
	return t.client.Cancel(ctx, t.id, agent.CancelRequest{Reason: "interrupted at the terminal"})
}

// take shows an event; done is true for the last.
func (t *chatTurn) take(e *agent.Event) (done bool, err error) {
	if e.Type != agent.EventStatus && e.Type != agent.EventRoute || e.Status == agent.StatusWaiting || e.Terminal() {
		t.progress.stop()
	}
	t.screen.Show(e)
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
		t.waiting = e.Status == agent.StatusWaiting
	default:
	}
	if t.waiting && len(t.pending) > 0 && !t.mute {
		t.ask()
	}
	if !e.Terminal() {
		return false, nil
	}
	if err := t.printEnd(e); err != nil {
		return true, err
	}
	return true, turnOutcome(e)
}

// printEnd prints what follows the last event of a turn.
func (t *chatTurn) printEnd(e *agent.Event) error {
	switch {
	case t.ended != nil:
		return t.ended(e)
	case t.output == "json" && e.Result != nil:
		return t.printJSON(e.Result)
	default:
		return nil
	}
}

func (t *chatTurn) ask() {
	fmt.Fprintf(t.errOut, "  %s: [a]pprove, [e]dit {json}, [r]eject {why}, or an answer with [=] {text}: ", t.pending[0].ToolName)
}

// answer turns a line into a decision about the oldest pending approval. A line that is none is asked for again.
func (t *chatTurn) answer(ctx context.Context, line string) error {
	d, ok := parseDecision(line)
	if !ok {
		t.ask()
		return nil
	}
	d.ApprovalID = t.pending[0].ApprovalID
	err := t.client.Decide(ctx, t.id, d)
	switch agent.CodeOf(err) {
	case "":
		t.pending = t.pending[1:]
	case agent.CodeConflict: // somebody else was quicker
		t.screen.Note("! %v", err)
		t.pending = t.pending[1:]
	case agent.CodeInvalid:
		t.screen.Note("! %v", err)
	default:
		return err
	}
	if len(t.pending) > 0 {
		t.ask()
	}
	return nil
}

// parseDecision reads "a", "approve", "e {json}", "r why", "= text" and the like.
func parseDecision(line string) (agent.Decision, bool) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(word) {
	case "a", "y", "yes", "approve":
		return agent.Decision{Decision: agent.DecisionApprove}, true
	case "r", "n", "no", "reject":
		return agent.Decision{Decision: agent.DecisionReject, Message: rest}, true
	case "e", "edit":
		return agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(rest)}, json.Valid([]byte(rest))
	case "=", "respond":
		return agent.Decision{Decision: agent.DecisionRespond, Message: rest}, rest != ""
	default:
		return agent.Decision{}, false
	}
}

// maxLine bounds one line of input.
const maxLine = 1 << 20

// lineReader sends the lines of a reader to a channel, so that waiting for one can be interrupted. It starts to read at the first call of
// next, and reads one line ahead at most.
type lineReader struct {
	start sync.Once
	in    io.Reader
	lines chan string // closed at the end of the input
}

func newLineReader(in io.Reader) *lineReader { return &lineReader{in: in, lines: make(chan string)} }

// next returns the channel of lines, which is closed at the end of the input.
func (r *lineReader) next() <-chan string {
	r.start.Do(func() {
		go func() {
			defer close(r.lines)
			s := bufio.NewScanner(r.in)
			s.Buffer(nil, maxLine)
			for s.Scan() {
				r.lines <- s.Text()
			}
		}()
	})
	return r.lines
}
