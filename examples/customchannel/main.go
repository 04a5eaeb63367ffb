// Command customchannel is a Turnstone worker with a custom channel: a TCP port that answers each line of text with a line, as in
// "nc 127.0.0.1 7000". A connection is a conversation. The worker has the same settings as the shipped one (docs/reference/configuration.md).
// docs/guides/extending.md says how to try it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil && !errors.Is(err, turnstone.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: env, Channels: []turnstone.Channel{{Name: "lines", Channel: lines{addr: "127.0.0.1:7000"}}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// lines is the channel.
type lines struct{ addr string }

// Serve accepts connections until ctx ends, and then waits until they are closed.
func (l lines) Serve(ctx context.Context, in agent.Inbox) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return l.serve(ctx, listener, in)
}

// maxConns is the largest number of open connections.
const maxConns = 100

func (l lines) serve(ctx context.Context, listener net.Listener, in agent.Inbox) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	slots := make(chan struct{}, maxConns)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil // the listener was closed because ctx has ended
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		slots <- struct{}{}
		open.Go(func() {
			defer func() { <-slots }()
			l.converse(ctx, conn, in)
		})
	}
}

// converse runs a turn for each line of a connection, one after the other.
func (lines) converse(ctx context.Context, conn net.Conn, in agent.Inbox) {
	defer conn.Close() //nolint:errcheck // all answers were written
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	say := func(text string) {
		_, _ = fmt.Fprintln(conn, strings.Join(strings.Fields(text), " ")) // fails if the client has left
	}
	session := agent.SessionID("lines-" + uuid.NewString())
	for input := bufio.NewScanner(conn); input.Scan(); {
		text := strings.TrimSpace(input.Text())
		if text == "" {
			continue
		}
		envelope := agent.Envelope{
			Channel: "lines", Sender: conn.RemoteAddr().String(),
			Request: agent.TurnRequest{SessionID: session, Message: text, IdempotencyKey: uuid.NewString()},
		}
		if err := answer(ctx, in, envelope, say); err != nil {
			say("error: " + err.Error())
		}
	}
}

// answer submits a message and follows its turn until it ends.
func answer(ctx context.Context, in agent.Inbox, e agent.Envelope, say func(text string)) error {
	receipt, err := in.Submit(ctx, e)
	if err != nil {
		return err
	}
	for event, err := range in.Follow(ctx, receipt.TurnID, 0) {
		switch {
		case err != nil:
			return err
		case event.Type == agent.EventApprovalRequested:
			say("a person has to decide: turn " + string(receipt.TurnID))
		case !event.Terminal():
		case event.Result != nil && event.Result.Error != nil:
			return event.Result.Error.AsError()
		case event.Result != nil:
			say(event.Result.Output)
		}
	}
	return nil
}
