package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/memory"
)

var completed = []agent.Event{{Type: agent.EventStatus, Status: agent.StatusCompleted}}

func open(t *testing.T, cfg memory.Config) *memory.Log {
	t.Helper()
	log, err := memory.New(cfg)
	require.NoError(t, err)
	return log
}

func write(t *testing.T, log *memory.Log, id string, events int) error {
	t.Helper()
	f, _, err := log.Begin(t.Context(), id, "p")
	if err != nil {
		return err
	}
	_, err = log.Append(t.Context(), f, 1, make([]agent.Event, events))
	return err
}

func read(log *memory.Log, id string) (n int, err error) {
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
	log := open(t, memory.Config{MaxStreams: 3})
	for _, id := range []string{"open", "first", "second"} {
		require.NoError(t, write(t, log, id, 1))
	}
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(write(t, log, "refused", 1)), "all are open")
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(log.Cancel(t.Context(), "refused")))
	require.NoError(t, log.Close(t.Context(), "first", completed))
	require.NoError(t, log.Close(t.Context(), "second", completed))
	n, err := read(log, "first") // so that the second is the one used longest ago
	require.NoError(t, err)
	require.Equal(t, 2, n)

	require.NoError(t, write(t, log, "new", 1))
	_, err = read(log, "second")
	require.ErrorIs(t, err, agent.ErrGap)
	n, err = read(log, "first")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, _, err = log.Begin(t.Context(), "second", "p")
	require.ErrorIs(t, err, agent.ErrStreamClosed, "an expired stream does not begin anew")
}

func TestExpiredStreamsAreForgottenInTheEnd(t *testing.T) {
	log := open(t, memory.Config{MaxStreams: 2})
	for i := range 100 {
		require.NoError(t, log.Close(t.Context(), fmt.Sprint(i), completed))
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
	log := open(t, memory.Config{MaxEvents: 10})
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
	require.NoError(t, log.Close(t.Context(), "s", completed), "the end always finds room")
	n, err := read(log, "s")
	require.NoError(t, err)
	require.Equal(t, 11, n)

	log = open(t, memory.Config{MaxStreamBytes: 1000})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(write(t, log, "s", 100)))
}

func TestBoundOfAllStreams(t *testing.T) {
	log := open(t, memory.Config{MaxBytes: 10_000}) // an empty event takes some 120 bytes
	require.NoError(t, write(t, log, "old", 40))
	require.NoError(t, log.Close(t.Context(), "old", completed))
	require.NoError(t, write(t, log, "a", 40), "still fits")
	require.NoError(t, write(t, log, "b", 35), "the closed one makes room")
	_, err := read(log, "old")
	require.ErrorIs(t, err, agent.ErrGap)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(write(t, log, "c", 40)))
	require.NoError(t, log.Close(t.Context(), "a", completed))
	require.NoError(t, write(t, log, "c", 30))
}

func TestNewRefusesNegativeBounds(t *testing.T) {
	for _, cfg := range []memory.Config{{MaxStreams: -1}, {MaxEvents: -1}, {MaxStreamBytes: -1}, {MaxBytes: -1}} {
		_, err := memory.New(cfg)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

func BenchmarkAppend(b *testing.B) {
	log, err := memory.New(memory.Config{MaxEvents: 1 << 30, MaxStreamBytes: 1 << 40, MaxBytes: 1 << 40})
	require.NoError(b, err)
	f, _, err := log.Begin(b.Context(), "s", "p")
	require.NoError(b, err)
	batch := int64(0)
	for b.Loop() {
		batch++
		if _, err := log.Append(b.Context(), f, batch, []agent.Event{{Type: agent.EventToken, Text: "some words"}}); err != nil {
			b.Fatal(err)
		}
	}
}
