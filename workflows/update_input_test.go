package workflows_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// refusedUpdates are updates with the beginning of the error that refuses them. For cancel every field is optional, so that a misspelt or
// misdirected one would cancel.
var refusedUpdates = []struct{ update, input, want string }{
	{"decide", `{"approval_id":"a","decision":"approve","remembr":true}`, "remembr: unknown field"},
	{"decide", `{"approval_id":7,"decision":"approve"}`, "approval_id: want a string, got a number"},
	{"decide", `{"approval_id":"a","decision":"approve","decision":"reject"}`, "decision: is given twice"},
	{"decide", `"a"`, "want an object, got a string"},
	{"decide", `{"approval_id":"a"}`, "decision: want approve"},
	{"message", `{"mesage":"x"}`, "mesage: unknown field"},
	{"message", `{"message":"x","on_busy":1}`, "on_busy: want a string, got a number"},
	{"message", `{"message":" "}`, "message: is empty"},
	{"provide", `{"tool_call_id":"a","result":1,"err":""}`, "err: unknown field"},
	{"provide", `{"tool_call_id":[]}`, "tool_call_id: want a string, got an array"},
	{"cancel", `{"reason":"x","resaon":"y"}`, "resaon: unknown field"},
	{"cancel", `{"approval_id":"a","decision":"approve","by":"ann"}`, "approval_id: unknown field"},
	{"cancel", `{"reason":7}`, "reason"},
	{"answer", `{"question":"a","choice":"approve","comment":"x"}`, "comment: unknown field"},
	{"answer", `{"question":"a","choice":true}`, "choice: want a string, got a boolean"},
}

// refuseUpdates sends the updates that a workflow has, and reports those that it accepts.
func refuseUpdates(t *testing.T, env *testsuite.TestWorkflowEnvironment, names ...string) {
	t.Helper()
	for _, c := range refusedUpdates {
		for _, name := range names {
			if name != c.update {
				continue
			}
			env.UpdateWorkflow(c.update, c.input, &testsuite.TestUpdateCallback{
				OnAccept: func() { t.Error("accepted:", c.update, c.input) }, OnComplete: func(any, error) {},
				OnReject: func(err error) {
					require.ErrorContains(t, err, c.want)
					var application *temporal.ApplicationError
					if c.want != "reason" {
						require.ErrorAs(t, err, &application)
						require.Equal(t, "invalid", application.Type())
					}
				},
			}, json.RawMessage(c.input))
		}
	}
}

func TestUpdatesRefuseUnknownFields(t *testing.T) {
	t.Run("of a turn", func(t *testing.T) {
		env := newEnv(t)
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
		env.OnActivity("CallModel", mock.Anything, mock.Anything).After(3*time.Second).Return(agent.ModelVerdict{}, nil).Once()
		stores(env)
		env.RegisterDelayedCallback(func() { refuseUpdates(t, env, "decide", "message", "provide", "cancel") }, time.Second)
		require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
	})
	t.Run("of a conversation", func(t *testing.T) {
		env := newEnv(t)
		env.RegisterDelayedCallback(func() { refuseUpdates(t, env, "decide", "message") }, time.Second)
		require.Zero(t, converse(t, env, nil).Turns)
	})
	t.Run("of a process", func(t *testing.T) {
		var asked []agent.TurnRequest
		env := newProcessEnv(t, echoes(&asked))
		env.RegisterDelayedCallback(func() { refuseUpdates(t, env, "decide", "answer", "cancel") }, time.Second)
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "a", Choice: workflows.ChoiceApprove})
		}, time.Minute)
		process(t, env, `{"steps":[{"name":"a","message":"x","needs_approval":true}]}`, nil)
	})
}

// TestUpdatesAtWorkAreBounded: one too many is told so, and not that the turn is over.
func TestUpdatesAtWorkAreBounded(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).After(time.Second).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
	env.OnActivity("QueueMessage", mock.Anything, mock.Anything).Return(turns.QueueMessageResult{}, nil).Times(64)
	stores(env)
	var refused []error
	env.RegisterDelayedCallback(func() {
		for i := range 65 {
			env.UpdateWorkflow("message", fmt.Sprint(i), &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Error("rejected:", err) },
				OnComplete: func(_ any, err error) {
					if err != nil {
						refused = append(refused, err)
					}
				},
			}, turns.Message{Message: "hello"})
		}
	}, 0)
	require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[0], "64 updates of the turn are at work already")
}

func TestConversationRefusesInput(t *testing.T) {
	for input, want := range map[string]string{
		``:                                `the workflow needs one argument, a conversation such as {"session_id":"trip-1"}`,
		`"s1"`:                            "want an object, got a string",
		`{}`:                              "session_id: want",
		`{"session_id":"a b"}`:            "session_id: want",
		`{"session_id":5}`:                "session_id: want a string, got a number",
		`{"session_id":"s","sesion":"x"}`: "sesion: unknown field",
		`{"session_id":"s","context":{"tenent":"x"}}`:   "context.tenent: unknown field",
		`{"session_id":"s","context":{"user_id":5}}`:    "context.user_id: want a string, got a number",
		`{"session_id":"s","context":{"tenant":"a b"}}`: `context.tenant: want 1 to 128 of A-Z a-z 0-9 . _ -, got "a b"`,
		`{"session_id":"s","agent":"a b"}`:              "agent: want 1 to 128",
		`{"session_id":"s","idle_timeout":30}`:          "idle_timeout: want a string, got a number",
		`{"session_id":"s","idle_timeout":"soon"}`:      `idle_timeout: want a duration such as 30m, got "soon"`,
		`{"session_id":"s","idle_timeout":"-1h"}`:       "idle_timeout: want a duration",
	} {
		env := newEnv(t)
		if input == "" {
			env.ExecuteWorkflow(workflows.ConversationType)
		} else {
			env.ExecuteWorkflow(workflows.ConversationType, json.RawMessage(input), nil)
		}
		require.ErrorContains(t, env.GetWorkflowError(), want, input)
		require.ErrorContains(t, env.GetWorkflowError(), "type: invalid", input)
	}
}

// TestConversationTakesAMessageAtOnce: an update may come with the first task, while the input is still being checked.
func TestConversationTakesAMessageAtOnce(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("CheckConversation", mock.Anything, mock.Anything).After(time.Second).Return(activities.CheckInputResult{}, nil).Once()
	said := queues(t, env, 0)
	var children []agent.TurnRequest
	answers(t, env, &children)
	env.RegisterDelayedCallback(func() { env.UpdateWorkflowNoRejection("message", "u", t, turns.Message{Message: "hello"}) }, 0)
	require.Equal(t, 1, converse(t, env, nil).Turns)
	require.Equal(t, []string{"hello"}, *said)
}

// TestConversationAnswersAMessageThatCameWithARefusedInput: an update with start is told what is wrong.
func TestConversationAnswersAMessageThatCameWithARefusedInput(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("CheckConversation", mock.Anything, mock.Anything).After(time.Second).Return(
		activities.CheckInputResult{Refusal: &agent.Failure{Type: "invalid", Message: "session_id: is wrong"}}, nil).Once()
	var answer error
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow("message", "u", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error("rejected:", err) }, OnComplete: func(_ any, err error) { answer = err },
		}, turns.Message{Message: "hello"})
	}, 0)
	env.ExecuteWorkflow(workflows.ConversationType, workflows.ConversationInput{}, nil)
	require.ErrorContains(t, env.GetWorkflowError(), "session_id: is wrong")
	require.ErrorContains(t, answer, "session_id: is wrong")
}

// TestProcessIsCancelledAtOnce, likewise.
func TestProcessIsCancelledAtOnce(t *testing.T) {
	env := newProcessEnv(t, untold)
	env.OnActivity("CheckProcess", mock.Anything, mock.Anything).After(time.Second).Return(activities.CheckInputResult{}, nil).Once()
	env.RegisterDelayedCallback(func() { env.UpdateWorkflowNoRejection("cancel", "u", t, agent.CancelRequest{By: "ann"}) }, 0)
	out := process(t, env, `{"steps":[{"name":"a","message":"x"}]}`, nil)
	require.Equal(t, workflows.IntelligentCancelled, out.Status)
	require.Empty(t, out.Steps)
}

// TestConversationOfAnOlderWorker: one that began with a field that nobody knew goes on.
func TestConversationOfAnOlderWorker(t *testing.T) {
	for input, want := range map[string]string{`{"session_id":"s1","idle_timeout":"1h","sesion":"x"}`: "", `{"session_id":"a b"}`: "session_id: want"} {
		env := newEnv(t)
		env.OnGetVersion("conversation-strict", workflow.DefaultVersion, workflow.Version(2)).Return(workflow.DefaultVersion)
		env.ExecuteWorkflow(workflows.ConversationType, json.RawMessage(input), nil)
		if want == "" {
			require.NoError(t, env.GetWorkflowError())
			continue
		}
		require.ErrorContains(t, env.GetWorkflowError(), want)
	}
}
