package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// intelligent starts an intelligent process as the command line would, with hand-typed JSON.
func (s *system) intelligent(id, input string) {
	s.t.Helper()
	_, err := s.Temporal().ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: s.set.Temporal.TaskQueue},
		workflows.IntelligentProcessType, json.RawMessage(input))
	require.NoError(s.t, err)
}

func (s *system) processState(id string) workflows.IntelligentProcessView {
	s.t.Helper()
	value, err := s.Temporal().QueryWorkflow(s.t.Context(), id, "", workflows.QueryState)
	require.NoError(s.t, err)
	var v workflows.IntelligentProcessView
	require.NoError(s.t, value.Get(&v))
	return v
}

func (s *system) awaitProcess(id string, until func(workflows.IntelligentProcessView) bool) (v workflows.IntelligentProcessView) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		v = s.processState(id)
		return until(v)
	}, time.Minute, 50*time.Millisecond)
	return v
}

func (s *system) update(id, name, input string) error {
	s.t.Helper()
	handle, err := s.Temporal().UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{json.RawMessage(input)}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(s.t.Context(), nil)
}

func (s *system) processEnds(id string) (out workflows.IntelligentProcessResult) {
	s.t.Helper()
	require.NoError(s.t, s.Temporal().GetWorkflow(s.t.Context(), id, "").Get(s.t.Context(), &out))
	return out
}

// TestProcessAsksBetweenSteps: words are seen growing, a person agrees before the next step, and the process continues as new after each
// step with nothing lost.
func TestProcessAsksBetweenSteps(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.intelligent("p1", `{"goal":"say 3 words","session_id":"p1","interval_ms":100,"continue_as_new_events":20,"steps":[
		{"name":"research","message":"say 60 words slowly"},
		{"name":"publish","message":"{{goal}}","needs_approval":true,"question":"Publish?"},
		{"name":"tell","message":"say 2 words"}]}`)
	var seen []string
	s.awaitProcess("p1", func(v workflows.IntelligentProcessView) bool {
		for _, step := range v.Steps {
			if n := len(seen); step.Partial != "" && (n == 0 || seen[n-1] != step.Partial) {
				seen = append(seen, step.Partial)
			}
		}
		return len(v.Questions) == 1
	})
	require.Greater(t, len(seen), 2, "the answer grew")
	v := s.processState("p1")
	require.Equal(t, "waiting", v.Status)
	require.Equal(t, "publish", v.Step)
	require.Equal(t, "Publish?", v.Questions[0].Prompt)
	require.Equal(t, `temporal workflow update execute --workflow-id p1 --name answer `+
		`--input '{"question":"publish","choice":"approve","by":"you"}'`, v.Questions[0].Command)
	require.ErrorContains(t, s.update("p1", "answer", `{"question":"publish","choice":"maybe"}`), "choice: want one of approve, edit, reject")
	require.NoError(t, s.update("p1", "answer", `{"question":"publish","choice":"approve","by":"ann"}`))

	out := s.processEnds("p1")
	require.Equal(t, workflows.IntelligentCompleted, out.Status, "%+v", out.Error)
	require.Len(t, out.Steps, 3)
	require.Equal(t, "ann", out.Steps[1].Answer.By)
	first, _ := s.follow(t.Context(), out.Steps[0].TurnID)
	for _, partial := range seen {
		require.Contains(t, first.Output, partial)
	}
	page, err := s.client.Messages(t.Context(), "p1", 0, 200)
	require.NoError(t, err)
	require.Len(t, page.Messages, 6, "three turns of one session")
	for _, step := range out.Steps {
		stored, err := s.client.Result(t.Context(), step.ResultRef)
		require.NoError(t, err)
		require.Equal(t, step.TurnID, stored.TurnID)
	}
	runs := s.runs("p1")
	require.Greater(t, len(runs), 1, "it continued as new")
	for i, run := range runs {
		name := ""
		if i < 2 {
			name = fmt.Sprintf("process_continued_%d", i+1)
		}
		s.replay(name, "p1", run)
	}
}

// TestProcessPassesADecisionOn: a tool call of a step waits for a person, the process shows it and passes the decision on, and the next
// step repeats what the step said.
func TestProcessPassesADecisionOn(t *testing.T) {
	t.Parallel()
	post := `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`
	model := turnstonetest.NewModel(t, turnstonetest.Call("execute_pipeline", post), turnstonetest.Say("ordered by hand"), turnstonetest.Say("thanks"))
	s := start(t, model.Use)
	s.intelligent("p2", `{"steps":[{"name":"order","message":"order tea"},{"name":"thank","message":"thank them: {{order}}"}]}`)
	v := s.awaitProcess("p2", func(v workflows.IntelligentProcessView) bool {
		return len(v.Steps) == 1 && len(v.Steps[0].Pending) == 1
	})
	require.Equal(t, "waiting", v.Status)
	pending := v.Steps[0].Pending[0]
	require.Equal(t, "execute_pipeline", pending.ToolName)
	require.Contains(t, pending.Command, pending.ApprovalID)
	require.NoError(t, s.update("p2", "decide", `{"approval_id":"`+pending.ApprovalID+`","decision":"respond","message":"done","by":"ann"}`))
	out := s.processEnds("p2")
	require.Equal(t, workflows.IntelligentCompleted, out.Status, "%+v", out.Error)
	asked := model.Requests()
	require.Contains(t, asked[len(asked)-1].Body, "thank them: ordered by hand")
	s.replay("process_with_pause", "p2", "")
}

func TestProcessIsCancelled(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.intelligent("p3", `{"steps":[{"name":"a","message":"say 400 words slowly"},{"name":"b","message":"say 2 words"}]}`)
	v := s.awaitProcess("p3", func(v workflows.IntelligentProcessView) bool { return len(v.Steps) == 1 && v.Steps[0].Partial != "" })
	require.NoError(t, s.update("p3", "cancel", `{"reason":"enough","by":"ops"}`))
	out := s.processEnds("p3")
	require.Equal(t, workflows.IntelligentCancelled, out.Status)
	require.Len(t, out.Steps, 1)
	stored, _ := s.follow(t.Context(), v.Steps[0].TurnID)
	require.Equal(t, agent.TurnCancelled, stored.Status)
	require.NotEmpty(t, stored.Output, "what it had said is stored")
	s.replay("process_cancelled", "p3", "")
}

// TestProcessAfterAReset: the turns of the earlier run have their names still, so the steps behind the reset get new ones.
func TestProcessAfterAReset(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.intelligent("p4", `{"steps":[{"name":"a","message":"say 2 words"},{"name":"b","message":"say 3 words"},{"name":"c","message":"say 4 words"}]}`)
	before := s.processEnds("p4")
	require.Equal(t, workflows.IntelligentCompleted, before.Status)
	var at int64 // the task behind which the first step has ended and the second is about to be started
	for _, e := range s.history("p4", "").GetEvents() {
		if e.GetChildWorkflowExecutionCompletedEventAttributes() != nil && at == 0 {
			at = -1
		}
		if at == -1 && e.GetWorkflowTaskCompletedEventAttributes() != nil {
			at = e.GetEventId()
		}
	}
	require.Positive(t, at)
	first := s.firstRun("p4")
	_, err := s.Temporal().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.set.Temporal.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "p4", RunId: first},
		Reason: "test", WorkflowTaskFinishEventId: at, RequestId: t.Name(),
	})
	require.NoError(t, err)
	after := s.processEnds("p4")
	require.Equal(t, workflows.IntelligentCompleted, after.Status, "%+v", after.Error)
	require.Equal(t, before.Steps[0].TurnID, after.Steps[0].TurnID, "what was over stays")
	require.NotEqual(t, before.Steps[1].TurnID, after.Steps[1].TurnID)
	require.NotEqual(t, before.Steps[2].TurnID, after.Steps[2].TurnID)
	s.replay("process_reset", "p4", "")
}

// TestProcessOfOnesOwn runs two agents side by side in a process workflow on a queue of its own, as authors do with the public helper.
func TestProcessOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := start(t)
	type texts struct{ Heard, Said [2]string }
	body := func(ctx workflow.Context) (out texts, err error) {
		p, err := workflows.NewProcess(ctx, workflows.ProcessConfig{TaskQueue: s.set.Temporal.TaskQueue, IntervalMS: 100})
		if err != nil {
			return out, err
		}
		wg := workflow.NewWaitGroup(ctx)
		for i := range 2 {
			wg.Add(1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer wg.Done()
				var said agent.AgentStepOutput
				said, failed := p.RunAgent(ctx, workflows.Step{
					Name: fmt.Sprintf("side-%d", i), Request: agent.TurnRequest{Message: fmt.Sprintf("say %d words slowly", 20+i)}, Stream: true,
					OnBatch: func(b agent.TokenBatch) { out.Heard[i] += b.Text },
				})
				out.Said[i] = said.Output
				if failed != nil {
					err = failed
				}
			})
		}
		wg.Wait(ctx)
		p.Settle(ctx)
		return out, err
	}
	w := sdkworker.New(s.Temporal(), "own-process", sdkworker.Options{})
	w.RegisterWorkflowWithOptions(body, workflow.RegisterOptions{Name: "OwnProcess"})
	require.NoError(t, w.Start())
	defer w.Stop()
	run, err := s.Temporal().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "own process", TaskQueue: "own-process"}, "OwnProcess")
	require.NoError(t, err)
	var out texts
	require.NoError(t, run.Get(t.Context(), &out))
	require.NotEmpty(t, out.Heard[0])
	require.Equal(t, out.Said, out.Heard)
	require.NotEqual(t, out.Said[0], out.Said[1])
	replayer := sdkworker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(body, workflow.RegisterOptions{Name: "OwnProcess"})
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, s.history("own process", "")))
}

// TestProcessInTypeScript runs examples/typescript-process, which calls a turn by name, hears its tokens and asks for an approval.
func TestProcessInTypeScript(t *testing.T) {
	t.Parallel()
	npm, err := exec.LookPath("npm")
	require.NoError(t, err, "install Node.js 20.3 or newer with npm (Debian: apt-get install nodejs npm)")
	s := start(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "examples", "typescript-process"))))
	do := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), npm, args...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stderr = dir, &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "npm %v: %s%s", args, out, stderr.Bytes())
		return out
	}
	do("ci", "--no-audit", "--no-fund")
	raw := do("start", "--silent", "--", "--address", s.set.Temporal.Address, "--namespace", s.set.Temporal.Namespace,
		"--queue", s.set.Temporal.TaskQueue, "--answer", "approve")
	var out struct {
		Status  string   `json:"status"`
		By      string   `json:"by"`
		Batches int      `json:"batches"`
		Heard   []string `json:"heard"`
		Steps   []struct {
			TurnID    agent.TurnID    `json:"turn_id"`
			SessionID agent.SessionID `json:"session_id"`
			Output    string          `json:"output"`
			ResultRef string          `json:"result_ref"`
		} `json:"steps"`
	}
	require.NoError(t, json.Unmarshal(raw, &out), "%s", raw)
	require.Equal(t, "approved", out.Status)
	require.Equal(t, "npm start", out.By)
	require.Greater(t, out.Batches, 3, "it heard the answer grow")
	require.Len(t, out.Steps, 2)
	require.Equal(t, out.Steps[0].SessionID, out.Steps[1].SessionID)
	for i, step := range out.Steps {
		require.Equal(t, step.Output, out.Heard[i])
		result, _ := s.follow(t.Context(), step.TurnID)
		require.Equal(t, result.Output, step.Output)
		require.Equal(t, result.ResultRef, step.ResultRef)
	}
}
