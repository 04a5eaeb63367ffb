package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// inbox is an [agent.Inbox] in memory. The output of a turn repeats its message.
type inbox struct {
	agent.Inbox // for Decide and Cancel, which are not called

	mu   sync.Mutex
	sent []agent.Envelope
}

func (b *inbox) Submit(_ context.Context, e agent.Envelope) (agent.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Request.Message == "busy" {
		return agent.Receipt{}, agent.Errorf(agent.CodeConflict, "", "the session is busy")
	}
	b.sent = append(b.sent, e)
	return agent.Receipt{TurnID: agent.TurnID(fmt.Sprint(len(b.sent) - 1)), SessionID: e.Request.SessionID}, nil
}

func (b *inbox) Follow(_ context.Context, id agent.TurnID, _ int64) iter.Seq2[agent.Event, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var i int
	_, _ = fmt.Sscan(string(id), &i)
	message := b.sent[i].Request.Message
	return func(yield func(agent.Event, error) bool) {
		result := &agent.AgentStepOutput{Output: "you said:\n" + message}
		switch message {
		case "lost":
			yield(agent.Event{}, agent.Errorf(agent.CodeUnavailable, "", "the log is away"))
			return
		case "fail":
			result = &agent.AgentStepOutput{Error: &agent.Failure{Type: "overflow", Message: "too many tokens"}}
		case "pay":
			if !yield(agent.Event{Type: agent.EventApprovalRequested}, nil) {
				return
			}
		}
		if yield(agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning}, nil) {
			yield(agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: result}, nil)
		}
	}
}

func TestLines(t *testing.T) {
	box := &inbox{}
	ctx, stop := context.WithCancel(t.Context())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- lines{}.serve(ctx, listener, box) }()

	dial := func() (net.Conn, func(string) string) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		answers := bufio.NewScanner(conn)
		return conn, func(text string) string {
			fmt.Fprintln(conn, text)
			require.True(t, answers.Scan(), "%v", answers.Err())
			return answers.Text()
		}
	}
	conn, tell := dial()
	require.Equal(t, "you said: hello", tell("\n  hello "))
	require.Equal(t, "you said: again", tell("again"))
	require.Equal(t, "error: the session is busy", tell("busy"))
	require.Equal(t, "error: the log is away", tell("lost"))
	require.Equal(t, "error: too many tokens", tell("fail"))
	require.Equal(t, "a person has to decide: turn 4", tell("pay"))
	_, other := dial()
	require.Equal(t, "you said: hi", other("hi"))

	require.Equal(t, conn.LocalAddr().String(), box.sent[0].Sender)
	require.Equal(t, box.sent[0].Request.SessionID, box.sent[1].Request.SessionID, "a connection is a conversation")
	require.NotEqual(t, box.sent[0].Request.SessionID, box.sent[5].Request.SessionID)
	require.NotEqual(t, box.sent[0].Request.IdempotencyKey, box.sent[1].Request.IdempotencyKey)
	request := box.sent[0].Request
	require.NoError(t, request.Validate(1<<20))

	stop()
	require.NoError(t, <-done, "the end of ctx is no error")
}

func TestPortIsTaken(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	require.ErrorContains(t, lines{addr: listener.Addr().String()}.Serve(t.Context(), &inbox{}), "listen:")
}
