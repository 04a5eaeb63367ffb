package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// echoes answers with the message in brackets.
func echoes(asked *[]agent.TurnRequest) turnOf {
	return func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		*asked = append(*asked, r)
		return completed(r, "["+r.Message+"]"), nil
	}
}

func messages(asked []agent.TurnRequest) (out []string) {
	for i := range asked {
		out = append(out, asked[i].Message)
	}
	return out
}

func process(t *testing.T, env *testsuite.TestWorkflowEnvironment, input string, carry *workflows.IntelligentProcessCarry) workflows.IntelligentProcessResult {
	t.Helper()
	env.ExecuteWorkflow(workflows.IntelligentProcessType, json.RawMessage(input), carry)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out workflows.IntelligentProcessResult
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func statuses(out *workflows.IntelligentProcessResult) (list []string) {
	for i := range out.Steps {
		list = append(list, out.Steps[i].Name+" "+out.Steps[i].Status)
	}
	return list
}

const threeSteps = `{"goal":"tea","agent":"clerk","session_id":"s1","context":{"tenant":"acme"},"limits":{"tokens":9},"steps":[
	{"name":"research","message":"about {{goal}}"},
	{"name":"draft","agent":"writer","message":"write of {{research}}"},
	{"name":"publish","message":"{{draft}} and {{research}} and {{{goal}}} {{ }} {{"}]}`

func TestIntelligentProcess(t *testing.T) {
	var asked []agent.TurnRequest
	env := newProcessEnv(t, echoes(&asked))
	out := process(t, env, threeSteps, nil)
	require.Equal(t, workflows.IntelligentCompleted, out.Status)
	require.Equal(t, []string{"research completed", "draft completed", "publish completed"}, statuses(&out))
	require.Equal(t, int64(3), out.Usage.OutputTokens)
	require.Equal(t, []string{
		"about tea", "write of [about tea]", "[write of [about tea]] and [about tea] and {tea} {{ }} {{",
	}, messages(asked))
	for i := range asked {
		require.Equal(t, []string{"clerk", "writer", "clerk"}[i], asked[i].Agent)
		require.Equal(t, agent.SessionID("s1"), asked[i].SessionID)
		require.Equal(t, "acme", asked[i].Context.Tenant)
		require.Equal(t, int64(9), asked[i].Limits.Tokens)
		require.Equal(t, workflows.SignalTokens, asked[i].StreamTo.Signal)
		require.Equal(t, asked[i].TurnID, out.Steps[i].TurnID)
		require.Equal(t, "artifact://"+string(asked[i].TurnID), out.Steps[i].ResultRef)
	}
	v := queryState[workflows.IntelligentProcessView](t, env)
	require.Equal(t, "completed", v.Status)
	require.Equal(t, out.Steps, v.Done)
}

// TestIntelligentProcessQuotesAsItIs: what an agent says is not searched for placeholders.
func TestIntelligentProcessQuotesAsItIs(t *testing.T) {
	var asked []agent.TurnRequest
	env := newProcessEnv(t, echoes(&asked))
	process(t, env, `{"goal":"{{secret}}","steps":[{"name":"secret","message":"{{goal}}"},{"name":"b","message":"{{goal}} {{secret}}"}]}`, nil)
	require.Equal(t, []string{"{{secret}}", "{{secret}} [{{secret}}]"}, messages(asked))
}

func TestIntelligentProcessAsksAPerson(t *testing.T) {
	input := `{"steps":[{"name":"draft","message":"write"},
		{"name":"publish","message":"publish","needs_approval":true,"question":"Out with it?","answer_timeout":"1h","on_timeout":"ON"},
		{"name":"tell","message":"tell"}]}`
	for name, c := range map[string]struct {
		answer *workflows.Answer
		on     string
		want   []string
		said   string
	}{
		"who approves":    {&workflows.Answer{Choice: "approve", By: "ann"}, "", []string{"draft completed", "publish completed", "tell completed"}, "publish"},
		"who edits":       {&workflows.Answer{Choice: "edit", Message: "publish softly"}, "", []string{"draft completed", "publish completed", "tell completed"}, "publish softly"},
		"who rejects":     {&workflows.Answer{Choice: "reject", Message: "no good"}, "", []string{"draft completed", "publish rejected"}, ""},
		"who is away":     {nil, "", []string{"draft completed", "publish rejected"}, ""},
		"who may be away": {nil, "approve", []string{"draft completed", "publish completed", "tell completed"}, "publish"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []agent.TurnRequest
			env := newProcessEnv(t, echoes(&asked))
			env.RegisterDelayedCallback(func() {
				v := queryState[workflows.IntelligentProcessView](t, env)
				require.Equal(t, "waiting", v.Status)
				require.Equal(t, "publish", v.Step)
				require.Equal(t, 3, v.Total)
				require.Len(t, v.Done, 1)
				require.Equal(t, "Out with it?", v.Questions[0].Prompt)
				require.Len(t, asked, 1, "it waits")
				if c.answer != nil {
					c.answer.Question = "publish"
					env.UpdateWorkflowNoRejection(workflows.UpdateAnswer, "u", t, *c.answer)
				}
			}, time.Minute)
			out := process(t, env, strings.Replace(input, "ON", c.on, 1), nil)
			require.Equal(t, c.want, statuses(&out))
			require.Equal(t, c.answer == nil, out.Steps[1].Answer.TimedOut)
			require.Empty(t, out.Steps[1].Answer.Message)
			if c.said == "" {
				require.Equal(t, workflows.IntelligentRejected, out.Status)
				require.Len(t, asked, 1)
				return
			}
			require.Equal(t, workflows.IntelligentCompleted, out.Status)
			require.Equal(t, c.said, asked[1].Message)
		})
	}
}

func TestIntelligentProcessFails(t *testing.T) {
	attempts := 0
	env := newProcessEnv(t, func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		attempts++
		out := completed(r, "")
		if r.Message == "bad" {
			out.Status, out.Error = agent.TurnFailed, &agent.Failure{Type: "model_error", Message: "away", Retryable: true}
		}
		return out, nil
	})
	out := process(t, env, `{"attempts":2,"steps":[{"name":"a","message":"good"},{"name":"b","message":"bad","attempts":3},{"name":"c","message":"never"}]}`, nil)
	require.Equal(t, workflows.IntelligentFailed, out.Status)
	require.Equal(t, []string{"a completed", "b failed"}, statuses(&out))
	require.Equal(t, &agent.Failure{Type: "model_error", Message: "step b: model_error: away", Retryable: true, Step: "b"}, out.Error)
	require.NotEmpty(t, out.Steps[1].TurnID)
	require.Equal(t, 4, attempts)
}

func TestIntelligentProcessIsCancelled(t *testing.T) {
	for name, cancel := range map[string]func(*testsuite.TestWorkflowEnvironment){
		"by Temporal": func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
		"by update": func(env *testsuite.TestWorkflowEnvironment) {
			env.UpdateWorkflowNoRejection(workflows.UpdateCancel, "u", t, agent.CancelRequest{By: "ann"})
		},
		"by signal": func(env *testsuite.TestWorkflowEnvironment) {
			env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{})
		},
	} {
		for at, want := range map[time.Duration][]string{
			time.Minute:      {"a cancelled"},
			90 * time.Minute: {"a completed", "b cancelled"}, // it asks
		} {
			t.Run(name+" after "+at.String(), func(t *testing.T) {
				env := newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
					out := completed(r, "")
					if err := workflow.Sleep(ctx, time.Hour); err != nil {
						out.Status = agent.TurnCancelled
					}
					return out, nil
				})
				env.RegisterDelayedCallback(func() { cancel(env) }, at)
				out := process(t, env, `{"steps":[{"name":"a","message":"x"},{"name":"b","message":"y","needs_approval":true}]}`, nil)
				require.Equal(t, workflows.IntelligentCancelled, out.Status)
				require.Equal(t, want, statuses(&out))
				require.Nil(t, out.Error)
			})
		}
	}
}

func TestIntelligentProcessContinuesAsNew(t *testing.T) {
	var asked []agent.TurnRequest
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		env.SetCurrentHistoryLength(2500)
		return echoes(&asked)(ctx, r)
	})
	env.SetCurrentHistoryLength(2500)
	env.ExecuteWorkflow(workflows.IntelligentProcessType, json.RawMessage(threeSteps), nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.Len(t, asked, 1, "never without having done something")
	var carry workflows.IntelligentProcessCarry
	require.NoError(t, json.Unmarshal(next.Input.GetPayloads()[1].GetData(), &carry))
	require.Equal(t, []workflows.Quote{{Name: "research", Text: "[about tea]"}}, carry.Quotes)
	require.Len(t, carry.Done, 1)
	rest := string(next.Input.GetPayloads()[0].GetData())
	require.NotContains(t, rest, "about {{goal}}", "what is over is not carried along")

	// The next run says what the first one would have said, and forgets what nobody repeats.
	env = newProcessEnv(t, echoes(&asked))
	out := process(t, env, rest, &carry)
	require.Equal(t, workflows.IntelligentCompleted, out.Status)
	require.Equal(t, []string{"research completed", "draft completed", "publish completed"}, statuses(&out))
	require.Equal(t, "[write of [about tea]] and [about tea] and {tea} {{ }} {{", asked[2].Message)
}

// TestIntelligentProcessForgets: an answer is carried along only while a later step repeats it.
func TestIntelligentProcessForgets(t *testing.T) {
	var asked []agent.TurnRequest
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		env.SetCurrentHistoryLength(100)
		return echoes(&asked)(ctx, r)
	})
	env.ExecuteWorkflow(workflows.IntelligentProcessType, json.RawMessage(`{"continue_as_new_events":100,"steps":[
		{"name":"b","message":"{{a}}"},{"name":"c","message":"x"}]}`), &workflows.IntelligentProcessCarry{})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.NotContains(t, string(next.Input.GetPayloads()[1].GetData()), "quotes")
}

// TestIntelligentProcessCancelOutdoesContinuing: a cancel that comes during the last step of a run is not lost with it.
func TestIntelligentProcessCancelOutdoesContinuing(t *testing.T) {
	var asked []agent.TurnRequest
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		env.SetCurrentHistoryLength(2500)
		env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{})
		return echoes(&asked)(ctx, r)
	})
	out := process(t, env, threeSteps, nil)
	require.Equal(t, workflows.IntelligentCancelled, out.Status)
	require.Len(t, asked, 1)
}

func TestIntelligentProcessRefusesInput(t *testing.T) {
	step := func(fields string) string {
		return `{"steps":[{"name":"a","message":"x"},{"name":"b",` + fields + `}]}`
	}
	many := `{"steps":[` + strings.Repeat(`{"name":"a","message":"x"},`, 100) + `{"name":"z","message":"x"}]}`
	for input, want := range map[string]string{
		``:                                  "the workflow needs one argument",
		`[]`:                                "want an object, got an array",
		`{"steps":"x"}`:                     "steps: want an array, got a string",
		`{"goals":"tea","steps":[{}]}`:      "goals: unknown field",
		`{"attempts":"3","steps":[{}]}`:     "attempts: want a whole number, got a string",
		`{"limits":{"tool_cals":1}}`:        "limits.tool_cals: unknown field",
		step(`"message":"x","approval":1`):  "steps[1].approval: unknown field",
		step(`"message":["x"]`):             "steps[1].message: want a string, got an array",
		step(`"message":"x","timeout":300`): "steps[1].timeout: want a string, got a number",
		`{}`:                                "steps: are none",
		many:                                "steps: are 101, at most 100",
		`{"session_id":"a b","steps":[{}]}`: "session_id: want",
		`{"attempts":101,"steps":[{}]}`:     "attempts: is 101",
		`{"continue_as_new_events":-1,"steps":[{}]}`:                            "continue_as_new_events",
		`{"interval_ms":5,"steps":[{"name":"a","message":"x"}]}`:                "interval_ms: is 5",
		`{"steps":[{"name":"a b","message":"x"}]}`:                              "steps[0].name: want",
		`{"steps":[{"name":"a","message":"x"}],"agent":"a b"}`:                  "agent: want",
		`{"steps":[{"name":"a","message":"x","agent":"a b"}]}`:                  "steps[0].agent: want",
		`{"steps":[{"name":"a","message":"x"}],"limits":{"model_calls":-1}}`:    "limits.model_calls: ",
		`{"steps":[{"name":"a","message":"x"}],"context":{"tenant":"a b"}}`:     "context.tenant: want",
		`{"steps":[{"name":"goal","message":"x"}]}`:                             "steps[0].name: want",
		`{"steps":[{"name":"a","message":"{{b}}"},{"name":"b","message":"x"}]}`: "steps[0].message: {{b}} is no earlier step",
		`{"steps":[{"name":"a","message":"{{{{a}}"}]}`:                          "steps[0].message: {{a}} is no earlier step",
		`{"steps":[{"name":"a","message":"x"},{"name":"a","message":"x"}]}`:     "steps[1].name: a is an earlier step's",
		step(`"message":" "`):                                                 "steps[1].message: is empty",
		step(`"message":"x","attempts":-1`):                                   "steps[1].attempts",
		step(`"message":"x","timeout":"soon"`):                                "steps[1].timeout: want a duration",
		step(`"message":"x","answer_timeout":"-1h"`):                          "steps[1].answer_timeout: want a duration",
		step(`"message":"x","on_timeout":"edit"`):                             "steps[1].on_timeout: want approve or reject",
		step(`"message":"x","question":"` + strings.Repeat("q", 9<<10) + `"`): "steps[1].question: is 9216 bytes",
		step(`"message":"` + strings.Repeat("q", 256<<10) + `"`):              "steps: goal, messages and questions are",
	} {
		env := newProcessEnv(t, untold)
		if input == "" {
			env.ExecuteWorkflow(workflows.IntelligentProcessType)
		} else {
			env.ExecuteWorkflow(workflows.IntelligentProcessType, json.RawMessage(input), nil)
		}
		require.ErrorContains(t, env.GetWorkflowError(), want)
		require.ErrorContains(t, env.GetWorkflowError(), "type: invalid")
	}
}

// TestIntelligentProcessOfAnOlderWorker: what one that took more has begun, goes on as it would have gone on there.
func TestIntelligentProcessOfAnOlderWorker(t *testing.T) {
	older := func(play turnOf) *testsuite.TestWorkflowEnvironment {
		env := newProcessEnv(t, play)
		env.OnGetVersion("intelligent-strict", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
		return env
	}
	var asked []agent.TurnRequest
	env := older(echoes(&asked))
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "a", Choice: workflows.ChoiceEdit})
	}, time.Minute)
	out := process(t, env, `{"goals":"?","steps":[{"name":"a","message":"as it is","needs_approval":true}]}`, nil)
	require.Equal(t, []string{"a completed"}, statuses(&out))
	require.Equal(t, []string{"as it is"}, messages(asked))

	env = older(untold)
	env.ExecuteWorkflow(workflows.IntelligentProcessType, json.RawMessage(`{"steps":[{"name":"a","message":" "}]}`), nil)
	require.ErrorContains(t, env.GetWorkflowError(), "steps[0].message: is empty")
	require.ErrorContains(t, env.GetWorkflowError(), "type: invalid")
}

func TestIntelligentProcessWantsTheWordsOfAnEdit(t *testing.T) {
	var asked []agent.TurnRequest
	env := newProcessEnv(t, echoes(&asked))
	env.RegisterDelayedCallback(func() {
		for _, none := range []string{"", " \n"} {
			a := workflows.Answer{Question: "a", Choice: workflows.ChoiceEdit, Message: none}
			env.SignalWorkflow(workflows.UpdateAnswer, a)
			env.UpdateWorkflow(workflows.UpdateAnswer, "u"+none, &testsuite.TestUpdateCallback{
				OnAccept:   func() { require.Fail(t, "accepted") },
				OnReject:   func(err error) { require.ErrorContains(t, err, "message: is empty, and the choice edit needs one") },
				OnComplete: func(any, error) {},
			}, a)
		}
	}, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Empty(t, asked, "it still waits")
		env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "a", Choice: workflows.ChoiceEdit, Message: "this"})
	}, time.Hour)
	process(t, env, `{"steps":[{"name":"a","message":"that","needs_approval":true}]}`, nil)
	require.Equal(t, []string{"this"}, messages(asked))
}
