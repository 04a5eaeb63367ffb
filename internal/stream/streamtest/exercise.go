// Package streamtest is the conformance suite of the event log (docs/design/design.md, "The event log"): what one implementation answers, all answer.
package streamtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Log is the port under test.
type Log = turns.EventLog

// Expirer is what a log needs beside the port, for the suite to make a gap.
type Expirer interface {
	// Expire deletes the events of streams closed before a time and returns how many there were.
	Expire(ctx context.Context, before time.Time) (int64, error)
}

// Exercise runs the suite. newLog returns a log that ends with its test; several may share their storage.
func Exercise(t *testing.T, newLog func(t *testing.T) Log) {
	for _, group := range [][]testCase{writing, fencing, ending, following, outliving} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.run(t, newLog(t)) })
		}
	}
	t.Run("model", func(t *testing.T) { model(t, newLog(t)) })
}

type testCase struct {
	name string
	run  func(t *testing.T, log Log)
}

// patience bounds every wait of the suite; nothing waits as long unless it is broken.
const patience = 20 * time.Second

func token(text string) agent.Event { return agent.Event{Type: agent.EventToken, Text: text} }

func tokens(texts ...string) []agent.Event {
	events := make([]agent.Event, len(texts))
	for i, s := range texts {
		events[i] = token(s)
	}
	return events
}

func terminal(s agent.EventStatusValue) []agent.Event {
	return []agent.Event{{Type: agent.EventStatus, Status: s, Reason: string(agent.StopEndTurn)}}
}

//nolint:revive // t comes first, as with require itself
func begin(t require.TestingT, ctx context.Context, log Log, id, producer string) agent.Fence {
	f, _, err := log.Begin(ctx, id, producer)
	require.NoError(t, err)
	_, err = log.Reset(ctx, f)
	require.NoError(t, err)
	return f
}

//nolint:revive // t comes first, as with require itself
func write(t require.TestingT, ctx context.Context, log Log, f agent.Fence, batch int64, texts ...string) agent.Appended {
	a, err := log.Append(ctx, f, batch, tokens(texts...))
	require.NoError(t, err)
	return a
}

//nolint:revive // t comes first, as with require itself
func finish(t require.TestingT, ctx context.Context, log Log, id string) {
	require.NoError(t, log.Close(ctx, id, terminal(agent.StatusCompleted)))
}

// readN reads the first n events after an index, and all of them to the end of the stream for n < 0.
func readN(t require.TestingT, log Log, id string, after int64, n int) []agent.Event {
	got, err := tryReadN(log, id, after, n)
	require.NoError(t, err)
	return got
}

// tryReadN is readN for goroutines other than the test's, which may not end it.
func tryReadN(log Log, id string, after int64, n int) ([]agent.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got []agent.Event
	if n == 0 {
		return got, nil
	}
	for e, err := range log.Follow(ctx, id, after) {
		if err != nil {
			return got, fmt.Errorf("after %d events: %w", len(got), err)
		}
		if want := after + int64(len(got)) + 1; e.Meta.EventIndex != want {
			return got, fmt.Errorf("event index %d instead of %d: indices are contiguous", e.Meta.EventIndex, want)
		}
		got = append(got, e)
		if len(got) == n {
			break
		}
	}
	return got, nil
}

func readAll(t require.TestingT, log Log, id string, after int64) []agent.Event {
	return readN(t, log, id, after, -1)
}

func texts(events []agent.Event) []string {
	var got []string
	for i := range events {
		switch events[i].Type {
		case agent.EventToken:
			got = append(got, events[i].Text)
		case agent.EventReset:
			got = append(got, "reset")
		default:
			got = append(got, string(events[i].Status))
		}
	}
	return got
}

// followError reads until the stream ends and returns the error that ended it.
func followError(ctx context.Context, log Log, id string, after int64) error {
	for _, err := range log.Follow(ctx, id, after) {
		if err != nil {
			return err
		}
	}
	return nil
}
