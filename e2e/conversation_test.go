package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// converse starts a conversation as the command line would, with hand-typed JSON.
func (s *system) converse(session string) string {
	s.t.Helper()
	id := workflows.ConversationID("default", agent.SessionID(session))
	_, err := s.Temporal().ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: s.set.Temporal.TaskQueue},
		workflows.ConversationType, json.RawMessage(`{"session_id":"`+session+`","idle_timeout":"10m"}`))
	require.NoError(s.t, err)
	return id
}

// say sends a message as an update and returns its turn.
func (s *system) say(id, message string) agent.TurnID {
	s.t.Helper()
	handle, err := s.Temporal().UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: "message", Args: []any{json.RawMessage(`{"message":"` + message + `"}`)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(s.t, err)
	var r workflows.MessageReceipt
	require.NoError(s.t, handle.Get(s.t.Context(), &r))
	return r.TurnID
}

func (s *system) view(id string) workflows.ConversationView {
	s.t.Helper()
	value, err := s.Temporal().QueryWorkflow(s.t.Context(), id, "", workflows.QueryState)
	require.NoError(s.t, err)
	var v workflows.ConversationView
	require.NoError(s.t, value.Get(&v))
	return v
}

func TestConversationShowsTheAnswerGrowing(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.converse("talk")
	turn := s.say(id, "say 60 words slowly")
	var seen []string
	require.Eventually(t, func() bool {
		v := s.view(id)
		if n := len(seen); v.Partial != "" && (n == 0 || seen[n-1] != v.Partial) {
			seen = append(seen, v.Partial)
		}
		return v.Turns == 1
	}, 30*time.Second, 50*time.Millisecond)
	require.Greater(t, len(seen), 2, "the answer grew")
	out, _ := s.follow(t.Context(), turn)
	for _, partial := range seen {
		require.Contains(t, out.Output, partial)
	}
	require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", workflows.SignalClose, nil))
	var result workflows.ConversationResult
	require.NoError(t, s.Temporal().GetWorkflow(t.Context(), id, "").Get(t.Context(), &result))
	require.Equal(t, 1, result.Turns)
	s.replay("conversation", id, "")
	s.replay("turn_of_conversation", turn.WorkflowID(), "")
}

// TestConversationLosesNothing sends messages and decisions all the while the conversation continues as new again and again.
func TestConversationLosesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Conversation.ContinueAsNewEvents = 60 })
	id := s.converse("busy")
	const n = 24
	began := make([]agent.TurnID, 0, n)
	for i := range n {
		if i%3 == 2 { // a signal names no turn; the transcript shows it
			require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", "message", turns.Message{Message: fmt.Sprintf("say %d words", i+1)}))
			require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", "decide", agent.Decision{ApprovalID: "of nobody", Decision: agent.DecisionApprove}))
			continue
		}
		began = append(began, s.say(id, fmt.Sprintf("say %d words", i+1)))
	}
	require.Eventually(t, func() bool { return s.view(id).Turns == n }, 60*time.Second, 100*time.Millisecond)
	page, err := s.client.Messages(t.Context(), "busy", 0, 200)
	require.NoError(t, err)
	said := map[string]int{}
	for _, m := range page.Messages {
		if m.Role == agent.RoleUser {
			said[m.Blocks[0].Text]++
		}
	}
	require.Len(t, said, n, "%s", s.get("/v1/turns?session=busy&limit=200"))
	for text, times := range said {
		require.Equal(t, 1, times, text)
	}
	for _, turn := range began {
		out, _ := s.follow(t.Context(), turn)
		require.Equal(t, agent.TurnCompleted, out.Status)
	}
	require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", workflows.SignalClose, nil))
	var result workflows.ConversationResult
	require.NoError(t, s.Temporal().GetWorkflow(t.Context(), id, "").Get(t.Context(), &result))
	require.Equal(t, n, result.Turns)
	runs := s.runs(id)
	require.Greater(t, len(runs), 2, "it continued as new")
	for i, run := range runs {
		name := ""
		if i < 3 {
			name = fmt.Sprintf("conversation_continued_%d", i+1)
		}
		s.replay(name, id, run)
	}
}

// TestTokensGoToAnyWorkflowThatAsks runs a process workflow of somebody else's that calls a turn by name and hears its tokens.
func TestTokensGoToAnyWorkflowThatAsks(t *testing.T) {
	t.Parallel()
	s := start(t)
	type heard struct {
		Text   string
		Output string
	}
	process := func(ctx workflow.Context) (heard, error) {
		var h heard
		workflow.Go(ctx, func(ctx workflow.Context) {
			for {
				var b agent.TokenBatch
				workflow.GetSignalChannel(ctx, "my_tokens").Receive(ctx, &b)
				h.Text += b.Text
			}
		})
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: s.set.Temporal.TaskQueue})
		var out agent.AgentStepOutput
		err := workflow.ExecuteChildWorkflow(child, workflows.AgentTurnType, agent.TurnRequest{
			Message:  "say 30 words slowly",
			StreamTo: &agent.StreamTo{WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID, Signal: "my_tokens", IntervalMS: 100},
		}).Get(ctx, &out)
		h.Output = out.Output
		return h, err
	}
	w := sdkworker.New(s.Temporal(), "process", sdkworker.Options{})
	w.RegisterWorkflowWithOptions(process, workflow.RegisterOptions{Name: "Process"})
	require.NoError(t, w.Start())
	defer w.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run, err := s.Temporal().ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "process"}, "Process")
	require.NoError(t, err)
	var h heard
	require.NoError(t, run.Get(ctx, &h))
	require.NotEmpty(t, h.Text)
	require.Equal(t, h.Output, h.Text)
}

func TestStateAndUpdatesOfATurn(t *testing.T) {
	t.Parallel()
	s := start(t)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 300 words slowly", SessionID: "u"})
	require.NoError(t, err)
	s.awaitText(receipt.TurnID, "word2")
	value, err := s.Temporal().QueryWorkflow(t.Context(), receipt.TurnID.WorkflowID(), "", workflows.QueryState)
	require.NoError(t, err)
	var v workflows.TurnView
	require.NoError(t, value.Get(&v))
	require.Equal(t, "running", v.Status)
	require.Equal(t, receipt.TurnID, v.TurnID)
	require.Contains(t, v.PlanHash, "sha256:")

	next := s.say(receipt.TurnID.WorkflowID(), "say 2 words")
	handle, err := s.Temporal().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: receipt.TurnID.WorkflowID(), UpdateName: "cancel", Args: []any{json.RawMessage(`{"reason":"enough","by":"ops"}`)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, handle.Get(t.Context(), nil))
	out, _ := s.follow(t.Context(), receipt.TurnID)
	require.Equal(t, agent.TurnCancelled, out.Status)
	out, _ = s.follow(t.Context(), next)
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.Equal(t, agent.SessionID("u"), out.SessionID)
	s.closed(receipt.TurnID)
	s.replay("turn_with_updates", receipt.TurnID.WorkflowID(), "")
}

// TestConversationSurfacesPauses: each turn waits for a person, is decided through the conversation, and the thread goes on, while it
// continues as new after every turn.
func TestConversationSurfacesPauses(t *testing.T) {
	t.Parallel()
	post := `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`
	model := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", post), turnstonetest.Say("one"), turnstonetest.Call("execute_pipeline", post), turnstonetest.Say("two"), turnstonetest.Call("execute_pipeline", post), turnstonetest.Say("three"))
	s := start(t, model.Use, func(c *app.Config) { c.Conversation.ContinueAsNewEvents = 10 })
	id := s.converse("careful")
	for i := range 3 {
		turn := s.say(id, fmt.Sprintf("order number %d", i+1))
		var v workflows.ConversationView
		require.Eventually(t, func() bool {
			v = s.view(id)
			return len(v.Waiting) == 1 && v.TurnID == turn
		}, 20*time.Second, 50*time.Millisecond)
		require.Equal(t, "waiting", v.Status)
		d := agent.Decision{ApprovalID: v.Waiting[0].ApprovalID, Decision: agent.DecisionRespond, Message: "done by hand", By: "ann"}
		require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", "decide", d))
		out, _ := s.follow(t.Context(), turn)
		require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
		require.Equal(t, []string{"one", "two", "three"}[i], out.Output)
	}
	require.Eventually(t, func() bool { return s.view(id).Turns == 3 }, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, s.Temporal().SignalWorkflow(t.Context(), id, "", workflows.SignalClose, nil))
	require.NoError(t, s.Temporal().GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
	runs := s.runs(id)
	require.Greater(t, len(runs), 2)
	for i, run := range runs {
		name := ""
		if i == 0 {
			name = "conversation_with_pause"
		}
		s.replay(name, id, run)
	}
}
