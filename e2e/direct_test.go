package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// kinds are the types of events with what tells them apart; neighbouring tokens are one.
func kinds(events []agent.Event) (out []string) {
	for i := range events {
		e := &events[i]
		kind := string(e.Type)
		switch e.Type {
		case agent.EventStatus:
			kind += " " + string(e.Status)
		case agent.EventToolStart, agent.EventToolEnd:
			kind += " " + e.ToolName
		case agent.EventToolProgress:
			continue
		default:
		}
		if n := len(out); n > 0 && out[n-1] == kind && e.Type == agent.EventToken {
			continue
		}
		out = append(out, kind)
	}
	return out
}

// TestDirectTurn: the same turn with and without Temporal has the same events, result and transcript; a direct one has no workflow.
func TestDirectTurn(t *testing.T) {
	t.Parallel()
	s := start(t, nothingRemembered)
	durable, durableEvents := s.run(agent.TurnRequest{Message: mainJob, SessionID: "a"})
	direct, directEvents := s.run(agent.TurnRequest{Message: mainJob, SessionID: "b", Mode: agent.ModeDirect})
	require.Equal(t, agent.TurnCompleted, direct.Status, "%+v", direct.Error)
	require.Equal(t, durable.Output, direct.Output)
	require.Equal(t, durable.ResultPreview, direct.ResultPreview)
	require.Equal(t, durable.Usage.InputTokens, direct.Usage.InputTokens)
	require.Equal(t, kinds(durableEvents), kinds(directEvents))
	require.Equal(t, direct.Output, streamtest.Shown(directEvents))
	_, err := s.Temporal().DescribeWorkflowExecution(t.Context(), direct.TurnID.WorkflowID(), "")
	require.Error(t, err, "no workflow")

	// One conversation, in whatever mode.
	next, _ := s.run(agent.TurnRequest{Message: "say 2 words", SessionID: "b"})
	require.Equal(t, agent.TurnCompleted, next.Status)
	page, err := s.client.Messages(t.Context(), "b", 0, 100)
	require.NoError(t, err)
	require.Len(t, page.Messages, 6)
}

// TestDirectTurnWaits: a turn whose session is busy is durable from then on, and runs when its time has come.
func TestDirectTurnWaits(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		close(asked)
		if x.Await(release) {
			turnstonetest.Say("first")(x)
		}
	}, turnstonetest.Say("second"))
	s := start(t, provider.Use)
	first, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "one", SessionID: "s", Mode: agent.ModeDirect})
	require.NoError(t, err)
	await(t, asked, "the first turn asks its model")
	second, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "two", SessionID: "s", Mode: agent.ModeDirect})
	require.NoError(t, err)
	close(release)
	out, _ := s.follow(t.Context(), first.TurnID)
	require.Equal(t, "first", out.Output)
	out, _ = s.sound("direct_turn_waited", second)
	require.Equal(t, "second", out.Output)
}

// TestDirectTurnIsHandedOver: a process that stops gives its direct turns to Temporal, in the middle of a word; another one goes on.
func TestDirectTurnIsHandedOver(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		x.Begin("all is ")
		close(begun)
		x.Hold()
	}, turnstonetest.Say("all is well"))
	set := turnstonetest.Settings(t, provider.Use)
	a := startWith(t, set)
	other := *set
	b := startWith(t, &other)
	receipt, err := a.client.Start(t.Context(), agent.TurnRequest{Message: "hello", Mode: agent.ModeDirect})
	require.NoError(t, err)
	await(t, begun, "the model begins")
	b.awaitText(receipt.TurnID, "all")
	require.NoError(t, a.Stop(t.Context()))
	out, events := b.sound("direct_turn_handed_over", receipt)
	require.Equal(t, "all is well", out.Output)
	require.Equal(t, 1, count(events, agent.EventReset))
}

// TestDirectTurnThatLasts: a direct turn that lasts longer than it may becomes durable before its next step. Its events go on, the caller who waits
// gets the answer, and whoever asks is told why.
func TestDirectTurnThatLasts(t *testing.T) {
	t.Parallel()
	fetch := `{"session_id":"s","pipeline":[{"step":"http_request","url":"` + turnstonetest.FlightsURL(t) + `/flights","method":"GET"}]}`
	provider := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", fetch), turnstonetest.Say("three flights"))
	s := start(t, provider.Use, func(c *app.Config) { c.Turn.DirectMax = time.Nanosecond })
	answer := s.request("", http.MethodPost, "/v1/turns", agent.TurnRequest{TurnID: "lasts-1", SessionID: "s", Message: "hello", Mode: agent.ModeDirect})
	require.Equal(t, http.StatusOK, answer.status, "%s", answer.body)
	require.Contains(t, string(answer.body), "three flights")
	out, events := s.sound("", agent.Receipt{TurnID: "lasts-1", SessionID: "s"})
	require.Equal(t, "three flights", out.Output)
	require.Equal(t, []string{
		"status RUNNING", "route", "usage", "status RUNNING", "tool_start execute_pipeline", "tool_end execute_pipeline", "token", "usage", "status COMPLETED",
	}, kinds(events))
	require.Equal(t, agent.FallbackDuration.Reason(), events[3].Reason)
	require.Len(t, provider.Requests(), 3, "no step is done twice; the third is of the next turn")
	require.Contains(t, string(s.get("/v1/turns/lasts-1")), `"mode":"durable","fallback":"duration"`)
}

// TestDirectTurnPauses: a direct turn that needs a person becomes durable, decision and all.
func TestDirectTurnPauses(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", `{"session_id":"s","pipeline":[{"step":"http_request","url":"`+turnstonetest.FlightsURL(t)+
		`/flights","method":"POST"}]}`), turnstonetest.Say("done"))
	s := start(t, provider.Use)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "book it", Mode: agent.ModeDirect})
	require.NoError(t, err)
	s.awaitEvent(receipt.TurnID, agent.EventApprovalRequested)
	page, err := s.client.Approvals(t.Context(), agent.ApprovalQuery{TurnID: receipt.TurnID, State: "pending"})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 1)
	require.NoError(t, s.client.Decide(t.Context(), receipt.TurnID, agent.Decision{
		ApprovalID: page.Approvals[0].ApprovalID, Decision: agent.DecisionRespond, Message: "it is booked", By: "ops",
	}))
	out, _ := s.sound("direct_turn_paused", receipt)
	require.Equal(t, "done", out.Output)
	var request struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(provider.Requests()[1].Body), &request))
	require.Contains(t, string(request.Messages[len(request.Messages)-1]), "it is booked")
}

// TestDirectTurnOfADeadProcess: when the lease has run out, whoever looks next has a workflow go on with the turn.
func TestDirectTurnOfADeadProcess(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) { close(asked); x.Hold() }, turnstonetest.Say("after"))
	s := start(t, provider.Use, func(c *app.Config) { c.LLM.TimeoutSec = 60 })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "s", Mode: agent.ModeDirect})
	require.NoError(t, err)
	await(t, asked, "the model is asked")
	conn, err := pgx.Connect(t.Context(), s.set.Database.URL.Reveal())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	// As after a minute of silence.
	_, err = conn.Exec(t.Context(), "UPDATE turns SET lease_until = now() - interval '1 second' WHERE turn_id = $1", string(receipt.TurnID))
	require.NoError(t, err)
	_, err = s.client.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	out, _ := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, "after", out.Output)
	out, _ = s.run(agent.TurnRequest{Message: "again", SessionID: "s"})
	require.Equal(t, "after", out.Output)
}

// TestDirectCancel stops the provider's request within a second, with and without Temporal. No test runs beside it.
func TestDirectCancel(t *testing.T) {
	for _, mode := range []agent.Mode{agent.ModeDirect, agent.ModeDurable} {
		t.Run(string(mode), func(t *testing.T) {
			begun, left := make(chan struct{}), make(chan time.Time, 1)
			provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
				x.Begin("all is ")
				close(begun)
				x.Hold()
				left <- time.Now()
			})
			s := start(t, provider.Use)
			receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "s", Mode: mode})
			require.NoError(t, err)
			await(t, begun, "the model begins")
			s.awaitText(receipt.TurnID, "all")
			at := time.Now()
			require.NoError(t, s.client.Cancel(t.Context(), receipt.TurnID, agent.CancelRequest{By: "ops"}))
			require.Less(t, (<-left).Sub(at), time.Second)
			out, events := s.follow(t.Context(), receipt.TurnID)
			require.Equal(t, agent.TurnCancelled, out.Status)
			require.Equal(t, out.Output, streamtest.Shown(events))
		})
	}
}
