package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// sound checks what holds of a turn with one spoken answer whatever happened to it, and returns its end: the stream is contiguous
// with one terminal event and shows the text once, there is one result and one transcript, the workflow agrees and replays (its
// history is recorded under a name, if there is one), and its session is free.
func (s *system) sound(name string, receipt agent.Receipt) (*agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	out, events := s.follow(ctx, receipt.TurnID)
	require.Equal(s.t, out.Output, streamtest.Shown(events), "text is shown once")

	result := s.closed(receipt.TurnID)
	require.Equal(s.t, out.Status, result.Status)
	require.Equal(s.t, out.ResultRef, result.ResultRef)
	s.storedOnce(out, events)
	s.replay(name, receipt.TurnID.WorkflowID(), "")

	next, err := s.client.Start(ctx, agent.TurnRequest{Message: "say 2 words", SessionID: receipt.SessionID})
	require.NoError(s.t, err)
	s.follow(ctx, next.TurnID) // ends: the session is free
	return out, events
}

// storedOnce checks result, transcript, record of tool calls and event log against what a viewer saw, who sees nothing behind the end.
func (s *system) storedOnce(out *agent.AgentStepOutput, events []agent.Event) {
	s.t.Helper()
	var stored struct {
		Output string `json:"output"`
	}
	require.NoError(s.t, json.Unmarshal(s.get("/v1/results/"+out.ResultRef[len("artifact://"):]), &stored))
	require.Equal(s.t, out.Output, stored.Output)

	conn, err := pgx.Connect(s.t.Context(), s.set.Database.URL.Reveal())
	require.NoError(s.t, err)
	defer conn.Close(context.Background())
	replies := 0
	if out.Status == agent.TurnCompleted {
		replies = 1 + len(out.ToolCalls) // one call in each step but the last
	}
	for sql, want := range map[string]int{
		"SELECT max(event_index) FROM events WHERE stream_id = $1":                int(lastIndex(events)),
		"SELECT count(*) FROM agent_results WHERE turn_id = $1":                   1,
		"SELECT count(*) FROM tool_calls WHERE turn_id = $1":                      len(out.ToolCalls),
		"SELECT count(*) FROM messages WHERE turn_id = $1 AND role = 'user'":      1,
		"SELECT count(*) FROM messages WHERE turn_id = $1 AND role = 'assistant'": replies,
	} {
		var n int
		require.NoError(s.t, conn.QueryRow(s.t.Context(), sql, string(out.TurnID)).Scan(&n), sql)
		require.Equal(s.t, want, n, sql)
	}
}

// live follows a turn from now on through a door, over every interruption, as a viewer who stays does.
func live(t *testing.T, door *client.Client, id agent.TurnID) (wait func() []agent.Event) {
	t.Helper()
	type seen struct {
		events []agent.Event
		err    error
	}
	done := make(chan seen, 1)
	go func() {
		var all seen
		for e, err := range door.Follow(t.Context(), id, 0) {
			if err != nil {
				all.err = err
				break
			}
			all.events = append(all.events, e)
		}
		done <- all
	}()
	return func() []agent.Event {
		t.Helper()
		select {
		case all := <-done:
			require.NoError(t, all.err)
			return all.events
		case <-time.After(2 * time.Minute):
			require.Fail(t, "the viewer saw no end")
			return nil
		}
	}
}

// awaitEvent waits until the stream of a turn has shown an event of a kind.
func (s *system) awaitEvent(id agent.TurnID, kind agent.EventType) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range s.client.Follow(ctx, id, 0) {
		require.NoError(s.t, err)
		if e.Type == kind {
			return
		}
	}
	require.Fail(s.t, "the stream ended")
}

// await waits for something that the test was told of by a closed channel.
func await(t *testing.T, happened <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(30 * time.Second):
		require.Fail(t, "it did not happen: "+what)
	}
}
