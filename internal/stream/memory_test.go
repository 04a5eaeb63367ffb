package stream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

var completedEvents = []agent.Event{{Type: agent.EventStatus, Status: agent.StatusCompleted}}

// boundedLog returns a log with the default bounds, except for one.
func boundedLog(bound func(b *memoryBounds)) *MemoryLog {
	b := defaultMemoryBounds()
	bound(&b)
	return newMemoryLog(b)
}

func writeEvents(t *testing.T, log *MemoryLog, id string, events int) error {
	t.Helper()
	f, _, err := log.Begin(t.Context(), id, "p")
	if err != nil {
		return err
	}
	_, err = log.Append(t.Context(), f, 1, make([]agent.Event, events))
	return err
}

func countEvents(log *MemoryLog, id string) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, err := range log.Follow(ctx, id, 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestClosedStreamsMakeRoom(t *testing.T) {
	log := boundedLog(func(b *memoryBounds) { b.streams = 3 })
	for _, id := range []string{"open", "first", "second"} {
		require.NoError(t, writeEvents(t, log, id, 1))
	}
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(writeEvents(t, log, "refused", 1)), "all are open")
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(log.Cancel(t.Context(), "refused")))
	require.NoError(t, log.Close(t.Context(), "first", completedEvents))
	require.NoError(t, log.Close(t.Context(), "second", completedEvents))
	n, err := countEvents(log, "first") // so that the second is the one used longest ago
	require.NoError(t, err)
	require.Equal(t, 2, n)

	require.NoError(t, writeEvents(t, log, "new", 1))
	_, err = countEvents(log, "second")
	require.ErrorIs(t, err, agent.ErrGap)
	n, err = countEvents(log, "first")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, _, err = log.Begin(t.Context(), "second", "p")
	require.ErrorIs(t, err, agent.ErrStreamClosed, "an expired stream does not begin anew")
}

func TestExpiredStreamsAreForgottenInTheEnd(t *testing.T) {
	log := boundedLog(func(b *memoryBounds) { b.streams = 2 })
	for i := range 100 {
		require.NoError(t, log.Close(t.Context(), fmt.Sprint(i), completedEvents))
	}
	var gone, gaps, kept int
	for i := range 100 {
		tail, err := log.Tail(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		switch {
		case tail.LastIndex == 0:
			gone++
		case tail.FirstIndex == 0:
			gaps++
		default:
			kept++
		}
	}
	require.Equal(t, []int{78, 20, 2}, []int{gone, gaps, kept})
}

func TestBoundsOfOneStream(t *testing.T) {
	log := boundedLog(func(b *memoryBounds) { b.events = 10 })
	f, _, err := log.Begin(t.Context(), "s", "p")
	require.NoError(t, err)
	_, err = log.Append(t.Context(), f, 1, make([]agent.Event, 10))
	require.NoError(t, err)
	_, err = log.Append(t.Context(), f, 2, make([]agent.Event, 1))
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	f, _, err = log.Begin(t.Context(), "s", "p")
	require.NoError(t, err)
	_, err = log.Reset(t.Context(), f)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	for i := range 9 {
		_, _, err = log.Begin(t.Context(), "s", fmt.Sprint(i))
		require.NoError(t, err)
	}
	_, _, err = log.Begin(t.Context(), "s", "one too many")
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	require.NoError(t, log.Close(t.Context(), "s", completedEvents), "the end always finds room")
	n, err := countEvents(log, "s")
	require.NoError(t, err)
	require.Equal(t, 11, n)

	log = boundedLog(func(b *memoryBounds) { b.streamBytes = 1000 })
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(writeEvents(t, log, "s", 100)))
}

func TestBoundOfAllStreams(t *testing.T) {
	log := boundedLog(func(b *memoryBounds) { b.bytes = 10_000 }) // an empty event takes some 120 bytes
	require.NoError(t, writeEvents(t, log, "old", 40))
	require.NoError(t, log.Close(t.Context(), "old", completedEvents))
	require.NoError(t, writeEvents(t, log, "a", 40), "still fits")
	require.NoError(t, writeEvents(t, log, "b", 35), "the closed one makes room")
	_, err := countEvents(log, "old")
	require.ErrorIs(t, err, agent.ErrGap)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(writeEvents(t, log, "c", 40)))
	require.NoError(t, log.Close(t.Context(), "a", completedEvents))
	require.NoError(t, writeEvents(t, log, "c", 30))
}
