package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

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

	client   *client.Client
	flags    turnFlags
	printEnd func(e *agent.Event) error // prints the outcome of a turn after its last event; nil: printResultJSON
}

// loop runs a turn for each line of input until the input ends. A turn that fails or is cancelled does not end the loop. The error is that of the
// last turn.
func (s *chatSession) loop(ctx context.Context) error {
	if s.flags.session == "" {
		s.flags.session = "cli-" + uuid.NewString()
	}
	fmt.Fprintf(s.errOut, "session %s — /quit ends it\n", s.flags.session)
	var lastErr error
	for {
		fmt.Fprint(s.errOut, "> ")
		select {
		case line, ok := <-s.lines.next():
			text := strings.TrimSpace(line)
			switch {
			case !ok || text == "/quit":
				fmt.Fprintln(s.errOut)
				return lastErr
			case text == "":
				continue
			}
			lastErr = s.turn(ctx, text)
			if lastErr != nil && exitCode(lastErr) != exitFailed && exitCode(lastErr) != exitCancelled {
				return lastErr
			}
		case <-s.interrupts:
			fmt.Fprintln(s.errOut)
			return lastErr
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followedEvent is an event of a turn, or the error that ended its stream.
type followedEvent struct {
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

// readDraft returns the document in the file of --draft, or "" if the flag is not given.
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

// follow starts a turn and shows it until it ends.
func (s *chatSession) follow(ctx context.Context, start func(context.Context) (agent.Receipt, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	receipt, interrupted, err := s.startTurn(ctx, start)
	if err != nil {
		return err
	}
	events := make(chan followedEvent)
	go func() {
		defer close(events)
		for e, err := range s.client.Follow(ctx, receipt.TurnID, 0) {
			select {
			case events <- followedEvent{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	answer := s.out
	if s.output == "json" {
		answer = io.Discard
	}
	t := chatTurn{chatSession: s, id: receipt.TurnID, printer: cmdline.NewTurnPrinter(answer, s.errOut)}
	t.printer.Program = s.program
	if interrupted {
		if err := t.cancel(ctx); err != nil {
			return err
		}
	}
	return t.run(ctx, events)
}

// startTurn starts a turn. It reports a Ctrl-C that came meanwhile, because the turn may exist before the receipt arrives. A second Ctrl-C ends it
// with errInterrupted.
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
