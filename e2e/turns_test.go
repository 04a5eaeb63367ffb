package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

func TestSimpleTurn(t *testing.T) {
	t.Parallel()
	s := start(t)
	out, events := s.run(agent.TurnRequest{Message: "say 20 words"})
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.True(t, strings.HasPrefix(out.Output, "word1 word2"), out.Output)
	require.Equal(t, out.Output, streamtest.Shown(events))
	s.closed(out.TurnID)
	s.replay("simple_turn", out.TurnID.WorkflowID(), "")
}

func TestParallelToolsKeepTheStreamContiguous(t *testing.T) {
	t.Parallel()
	s := start(t)
	out, events := s.run(agent.TurnRequest{Message: "fetch twice flights from NYC to LAX, sort by price, show top 2"})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, out.ToolCalls, 2)
	require.Equal(t, 2, count(events, agent.EventToolStart))
	require.Equal(t, 2, count(events, agent.EventToolEnd))
	s.closed(out.TurnID)
	s.replay("parallel_tools", out.TurnID.WorkflowID(), "")
}

func TestIdempotencyKeyJoinsTheTurn(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := agent.TurnRequest{Message: "say 3 words", IdempotencyKey: "order-1"}
	first, _ := s.run(req)
	second, _ := s.run(req)
	require.Equal(t, first.TurnID, second.TurnID)
	require.Equal(t, first.ResultRef, second.ResultRef)
	req.Context.Tenant = "other"
	third, _ := s.run(req)
	require.NotEqual(t, first.TurnID, third.TurnID)
}

// TestHistoryDoesNotGrow: turn 1 and turn N of a session, and an answer of 10 and of 10,000 tokens, cost the same history, however model
// calls run. No test runs beside it: a slow turn has more workflow tasks.
func TestHistoryDoesNotGrow(t *testing.T) {
	for calls, events := range map[agent.ModelCalls]int{agent.ModelCallsLocal: 13, agent.ModelCallsActivity: 23} {
		t.Run(string(calls), func(t *testing.T) { testHistoryDoesNotGrow(t, calls, events) })
	}
}

func testHistoryDoesNotGrow(t *testing.T, calls agent.ModelCalls, events int) {
	s := start(t, nothingRemembered, func(c *app.Config) { c.Temporal.ModelCalls = string(calls) })
	turns := 20
	if n, err := strconv.Atoi(os.Getenv("TURNSTONE_HISTORY_TURNS")); err == nil {
		turns = n
	}
	cost := func(req agent.TurnRequest) (int, int) {
		out, _ := s.run(req)
		require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
		s.closed(out.TurnID)
		return size(s.replay("", out.TurnID.WorkflowID(), ""))
	}
	firstEvents, firstBytes := cost(agent.TurnRequest{Message: mainJob, SessionID: "long"})
	for range turns - 2 {
		s.run(agent.TurnRequest{Message: "say 5 words", SessionID: "long"})
	}
	lastEvents, lastBytes := cost(agent.TurnRequest{Message: mainJob, SessionID: "long"})
	t.Logf("one-tool turn: turn 1 %d events %d bytes, turn %d %d events %d bytes", firstEvents, firstBytes, turns, lastEvents, lastBytes)
	require.Equal(t, firstEvents, lastEvents)
	require.InDelta(t, firstBytes, lastBytes, 64)
	require.LessOrEqual(t, lastEvents, events)

	shortEvents, shortBytes := cost(agent.TurnRequest{Message: "say 10 words"})
	longEvents, longBytes := cost(agent.TurnRequest{Message: "say 10000 words"})
	t.Logf("answer of 10 tokens %d events %d bytes, of 10,000 tokens %d events %d bytes", shortEvents, shortBytes, longEvents, longBytes)
	require.LessOrEqual(t, longEvents, shortEvents+6, "a few more for workflow-task timing, none for tokens")
	require.LessOrEqual(t, longBytes, shortBytes+2*1024+512, "at most the capped output, twice")
}

func TestCancelStopsTheModelAndKeepsWhatWasSaid(t *testing.T) {
	t.Parallel()
	for calls, history := range map[agent.ModelCalls]string{agent.ModelCallsActivity: "cancelled_turn", agent.ModelCallsLocal: "cancelled_turn_local"} {
		t.Run(string(calls), func(t *testing.T) { testCancel(t, calls, history) })
	}
}

func testCancel(t *testing.T, calls agent.ModelCalls, history string) {
	s := start(t, func(c *app.Config) { c.Temporal.ModelCalls = string(calls) })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 400 words slowly", SessionID: "c"})
	require.NoError(t, err)
	s.awaitText(receipt.TurnID, "word3")
	asked := time.Now()
	require.NoError(t, s.client.Cancel(t.Context(), receipt.TurnID, agent.CancelRequest{By: "test"}))
	out, events := s.follow(t.Context(), receipt.TurnID)
	require.Less(t, time.Since(asked), 5*time.Second)
	require.Equal(t, agent.TurnCancelled, out.Status)
	require.Equal(t, agent.StopCancelled, out.StopReason)
	require.Contains(t, out.Output, "word3")
	require.Equal(t, out.Output, streamtest.Shown(events))
	s.closed(receipt.TurnID)
	s.replay(history, receipt.TurnID.WorkflowID(), "")

	next, _ := s.run(agent.TurnRequest{Message: "say 2 words", SessionID: "c"})
	require.Equal(t, agent.TurnCompleted, next.Status, "the session is free again")
}

// awaitText waits until the stream of a turn has shown a text.
func (s *system) awaitText(id agent.TurnID, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	var shown string
	for e, err := range s.client.Follow(ctx, id, 0) {
		require.NoError(s.t, err)
		if shown += e.Text; strings.Contains(shown, text) {
			return
		}
		require.False(s.t, e.Terminal(), "the turn ended before it said %q: %+v", text, e.Result)
	}
	require.Fail(s.t, "the stream ended")
}

func TestBusySession(t *testing.T) {
	t.Parallel()
	s := start(t)
	holder, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 400 words slowly", SessionID: "busy"})
	require.NoError(t, err)
	s.awaitText(holder.TurnID, "word2")

	_, err = s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "busy", OnBusy: agent.OnBusyReject})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))

	out, _ := s.run(agent.TurnRequest{Message: "say 2 words", SessionID: "busy", OnBusy: agent.OnBusyInterrupt})
	require.Equal(t, agent.TurnCompleted, out.Status)
	interrupted, _ := s.follow(t.Context(), holder.TurnID)
	require.Equal(t, agent.TurnCancelled, interrupted.Status)
	s.closed(out.TurnID)
	s.replay("queued_turn", out.TurnID.WorkflowID(), "")
	s.replay("", holder.TurnID.WorkflowID(), "")
}

func TestFiftyMessagesAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	const n = 50
	type ended struct {
		out    *agent.AgentStepOutput
		events []agent.Event
	}
	receipts := make([]agent.Receipt, n)
	started := make(chan error, n)
	for i := range n {
		go func() {
			var err error
			receipts[i], err = s.client.Start(t.Context(), agent.TurnRequest{Message: fmt.Sprintf("say %d words", i+1), SessionID: "crowd"})
			started <- err
		}()
	}
	for range n {
		require.NoError(t, <-started)
	}
	results := make([]ended, n)
	for i := range n {
		results[i].out, results[i].events = s.follow(t.Context(), receipts[i].TurnID)
		require.Equal(t, agent.TurnCompleted, results[i].out.Status)
		require.Len(t, strings.Fields(results[i].out.Output), i+1, "each its own answer")
	}
	for i := range n { // one at a time: no two turns overlap
		for j := range n {
			if i != j {
				a, b := results[i].events, results[j].events
				apart := a[len(a)-1].Meta.Time.Before(b[0].Meta.Time) || b[len(b)-1].Meta.Time.Before(a[0].Meta.Time)
				require.True(t, apart, "turns %d and %d ran at the same time", i, j)
			}
		}
	}
	page, err := s.client.Messages(t.Context(), "crowd", 0, 200)
	require.NoError(t, err)
	require.Len(t, page.Messages, 2*n, "none lost, none twice")
	for i := 0; i < 2*n; i += 2 {
		require.Equal(t, agent.RoleUser, page.Messages[i].Role)
		require.Equal(t, agent.RoleAssistant, page.Messages[i+1].Role)
		require.Equal(t, page.Messages[i].TurnID, page.Messages[i+1].TurnID)
	}
}

func TestTurnContinuesAsNew(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Turn.ContinueAsNewEvents = 8 })
	out, _ := s.run(agent.TurnRequest{Message: mainJob})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.JSONEq(t, encode(t, out), encode(t, s.closed(out.TurnID)), "the caller gets the last run's result")
	runs := s.runs(out.TurnID.WorkflowID())
	require.Greater(t, len(runs), 1)
	for i, run := range runs {
		s.replay(fmt.Sprintf("turn_continued_%d", i+1), out.TurnID.WorkflowID(), run)
	}
}

func TestTerminatedTurnGetsItsTerminalEvent(t *testing.T) {
	t.Parallel()
	s := start(t)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 400 words slowly", SessionID: "t"})
	require.NoError(t, err)
	s.awaitText(receipt.TurnID, "word2")
	require.NoError(t, s.Temporal().TerminateWorkflow(t.Context(), receipt.TurnID.WorkflowID(), "", "test"))
	view, err := s.client.Turn(t.Context(), receipt.TurnID) // whoever looks finds out
	require.NoError(t, err)
	require.NotNil(t, view.Output)
	require.Equal(t, agent.StopTerminated, view.Output.StopReason)
	out, _ := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnFailed, out.Status)
	require.Contains(t, out.Error.Message, "ended without a result")

	next, _ := s.run(agent.TurnRequest{Message: "say 2 words", SessionID: "t"})
	require.Equal(t, agent.TurnCompleted, next.Status, "the session is free again")
}

// TestMessagesRunInTheOrderInWhichTheyWereAccepted: whoever has an answer to one request before sending the next keeps that order.
func TestMessagesRunInTheOrderInWhichTheyWereAccepted(t *testing.T) {
	t.Parallel()
	s := start(t)
	const n = 20
	var last agent.Receipt
	for i := range n {
		var err error
		last, err = s.client.Start(t.Context(), agent.TurnRequest{Message: fmt.Sprintf("say %d words", i+1), SessionID: "line"})
		require.NoError(t, err)
	}
	s.follow(t.Context(), last.TurnID)
	page, err := s.client.Messages(t.Context(), "line", 0, 200)
	require.NoError(t, err)
	require.Len(t, page.Messages, 2*n)
	for i := range n {
		require.Equal(t, fmt.Sprintf("say %d words", i+1), page.Messages[2*i].Blocks[0].Text)
	}
}

func TestFullQueueIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Turn.QueueLength = 2 })
	holder, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 300 words slowly", SessionID: "full"})
	require.NoError(t, err)
	s.awaitText(holder.TurnID, "word1")
	for range 2 {
		_, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 1 words", SessionID: "full"})
		require.NoError(t, err)
	}
	_, err = s.client.Start(t.Context(), agent.TurnRequest{Message: "say 1 words", SessionID: "full"})
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
	require.NoError(t, s.client.Cancel(t.Context(), holder.TurnID, agent.CancelRequest{}))
	s.follow(t.Context(), holder.TurnID)
}

// TestApprovalGoesThroughTheDoors: a pipeline that posts waits for a person; a message meanwhile is told so.
func TestApprovalGoesThroughTheDoors(t *testing.T) {
	t.Parallel()
	post := `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`
	s := start(t, turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", post), turnstonetest.Say("a pity")).Use)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "order it", SessionID: "shop"})
	require.NoError(t, err)
	var pending []agent.Approval
	require.Eventually(t, func() bool {
		turn, err := s.client.Turn(t.Context(), receipt.TurnID)
		require.NoError(t, err)
		pending = turn.Pending
		return len(pending) == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.Equal(t, "execute_pipeline", pending[0].ToolName)

	_, err = s.client.Start(t.Context(), agent.TurnRequest{Message: "hello?", SessionID: "shop"})
	require.ErrorContains(t, err, "awaiting_approval")
	decision := agent.Decision{ApprovalID: pending[0].ApprovalID, Decision: agent.DecisionReject, Message: "too dear", By: "ann"}
	require.NoError(t, s.client.Decide(t.Context(), receipt.TurnID, decision))
	out, events := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, "error", out.ToolCalls[0].Status)
	require.Equal(t, 1, count(events, agent.EventApprovalRequested))
	require.Equal(t, 1, count(events, agent.EventApprovalResolved))
	require.NoError(t, s.client.Decide(t.Context(), receipt.TurnID, decision), "whoever lost the answer sends it again")
	decision.Decision = agent.DecisionApprove
	require.Error(t, s.client.Decide(t.Context(), receipt.TurnID, decision), "too late")
	s.closed(receipt.TurnID)
	s.replay("approval_turn", receipt.TurnID.WorkflowID(), "")
}

// TestLargeResult: rows that are too many for a prompt are behind a cas:// reference, and the result has them all.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	rows := make([]string, 2000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":%d,"name":"row number %d"}`, i, i)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[" + strings.Join(rows, ",") + "]"))
	}))
	defer api.Close()
	s := start(t, func(c *app.Config) {
		c.Egress.AllowPrivate = append(c.Egress.AllowPrivate, api.Listener.Addr().String())
	})
	out, _ := s.run(agent.TurnRequest{Message: "fetch " + api.URL + "/rows", SessionID: "large"})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	ref := out.ToolCalls[0].Ref
	require.True(t, strings.HasPrefix(ref, "cas://sha256:"), ref)
	var data []json.RawMessage
	require.NoError(t, json.Unmarshal(s.get("/v1/results/"+ref), &data))
	require.Len(t, data, len(rows))
	require.JSONEq(t, string(s.get("/v1/results/"+ref)), string(field(t, s.get("/v1/results/"+out.ResultRef), "data")))
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Egress.AllowPrivate = nil })
	for _, url := range []string{"http://169.254.169.254/latest", "http://127.0.0.1:22/", "http://[::1]/", "http://2130706433/", "http://localhost/"} {
		out, _ := s.run(agent.TurnRequest{Message: "fetch " + url})
		require.Equal(t, agent.TurnCompleted, out.Status, "the model says what went wrong")
		require.Equal(t, "error", out.ToolCalls[0].Status, url)
		require.Contains(t, out.Output, "That did not work", url)
	}
}

func TestMemoryEventLog(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Events.Log = app.LogMemory })
	out, events := s.run(agent.TurnRequest{Message: mainJob})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, out.Output, streamtest.Shown(events))
	require.JSONEq(t, encode(t, out), encode(t, s.closed(out.TurnID)))
}
