package workflows_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// widest is what a line of a command may have before the Web UI cuts it, in characters (tools/pictures looks).
const widest = 80

// details are what the Web UI shows of a workflow that runs.
func details(t *testing.T, env *testsuite.TestWorkflowEnvironment) string {
	t.Helper()
	value, err := env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	var v sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&v))
	return v.GetCurrentDetails()
}

// TestSearchAttributesAreSetOnce: a turn that was started with its search attributes does not set them again, unless it is of a version that did.
func TestSearchAttributesAreSetOnce(t *testing.T) {
	for name, c := range map[string]struct {
		core    int
		started bool
		upserts int
	}{
		"started with them":  {core: turn.Version, started: true},
		"started by hand":    {core: turn.Version, upserts: 1},
		"an earlier version": {core: 2, started: true, upserts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			if c.started {
				require.NoError(t, env.SetTypedSearchAttributesOnStart(workflows.TurnAttributes(ref.Tenant, ref.Agent, ref.SessionID)))
			}
			upserts := 0
			env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(mock.Arguments) { upserts++ }).Return(nil).Maybe()
			begun := ready()
			begun.CoreVersion, begun.SearchAttributes = c.core, true
			env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
			if c.core >= turn.VersionPlan {
				env.OnActivity("RouteTurn", mock.Anything, mock.Anything).Return(turns.RouteTurnResult{}, nil).Once()
				env.OnActivity("LoadPlan", mock.Anything, mock.Anything).Return(turns.LoadPlanResult{ModelName: "m"}, nil).Once()
			}
			env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{FinishReason: agent.FinishStop}, nil).Once()
			stores(env)
			run(t, env, nil)
			require.Equal(t, c.upserts, upserts)
		})
	}
}

// pasted are the words that a shell makes of the commands in Markdown, each without the CLI's name.
func pasted(t *testing.T, markdown string) (commands [][]string) {
	t.Helper()
	blocks := strings.Split(markdown, "\n```\n")
	require.Equal(t, 1, len(blocks)%2, "a block is left open:\n%s", markdown)
	for i := 1; i < len(blocks); i += 2 {
		commands = append(commands, words(t, blocks[i]))
	}
	return commands
}

// words has a shell take a command apart.
func words(t *testing.T, command string) []string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "sh", "-c", `temporal() { printf '%s\0' "$@"; }`+"\n"+command).CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, said)
	return strings.Split(strings.TrimSuffix(string(said), "\x00"), "\x00")
}

// sends checks that a command sends an update, and returns its input.
func sends(t *testing.T, words []string, workflowID, update string) map[string]string {
	t.Helper()
	require.Len(t, words, 9)
	require.Equal(t, []string{"workflow", "update", "execute", "--workflow-id", workflowID, "--name", update, "--input"}, words[:8])
	var input map[string]string
	require.NoError(t, json.Unmarshal([]byte(words[8]), &input), words[8])
	return input
}

// odd are ids that a model may think of.
var odd = []string{
	"t1.1.call_4f0c", `it's "quoted" \n`, "$(touch x) `touch x` $HOME ; !! # %s", "two\nlines\t\a\x1b[2J", "```\n# a heading", "--input", "\u202egnol", "日本 é",
}

// TestATurnSaysHowToApprove: the details of a turn that waits name each call, its rule, and a command that can be pasted whatever the ids are.
func TestATurnSaysHowToApprove(t *testing.T) {
	env := newEnv(t)
	pending := []agent.PendingApproval{{CallID: "a", ToolName: "pay"}, {CallID: "b", ToolName: "delegate_to_agent"}}
	for _, id := range odd[2:] {
		pending = append(pending, agent.PendingApproval{CallID: agent.CallID(id), ToolName: "pay"})
	}
	for i := range pending {
		pending[i].ApprovalID = odd[i]
	}
	gatedBy(env, pending...)
	stores(env)
	env.RegisterDelayedCallback(func() {
		shown := details(t, env)
		require.Contains(t, shown, "\n`pay` wants to run; `interrupt_on.pay.when` is why you are asked. To approve:\n")
		require.Contains(t, shown, "\n`delegate_to_agent` wants to run. To approve:\n", "no rule is known")
		commands := pasted(t, shown)
		require.Len(t, commands, len(odd))
		for i, id := range odd {
			require.Equal(t, map[string]string{"approval_id": id, "decision": "approve", "by": "you"},
				sends(t, commands[i], "default-test-workflow-id", workflows.UpdateDecide))
		}
		require.Equal(t, "temporal workflow update execute \\\n  --workflow-id default-test-workflow-id --name decide \\\n"+
			"  --input '{\"approval_id\":\n    \"t1.1.call_4f0c\",\n    \"decision\":\"approve\",\"by\":\"you\"}'", strings.Split(shown, "\n```\n")[1])
		env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{})
	}, time.Minute)
	require.Equal(t, agent.TurnCancelled, run(t, env, nil).Status)
}

// TestCommandsFitTheWebUI: with ids as they usually are.
func TestCommandsFitTheWebUI(t *testing.T) {
	const id = "01a2042f-535f-7cc7-9d3c-c24fce38ca94"
	env := newEnv(t)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: agent.TurnID(id).WorkflowID()})
	gatedBy(env, agent.PendingApproval{ApprovalID: id + ".12.toolu_01A09q90qw90lq917835lq9", CallID: "a", ToolName: "pay"})
	stores(env)
	env.RegisterDelayedCallback(func() {
		for line := range strings.Lines(details(t, env)) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), widest, line)
		}
		env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{})
	}, time.Minute)
	require.Equal(t, agent.TurnCancelled, run(t, env, nil).Status)
}

// gatedBy makes the first model call ask for something, and the turn for approvals.
func gatedBy(env *testsuite.TestWorkflowEnvironment, pending ...agent.PendingApproval) {
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(asksFor(
		agent.CallVerdict{ID: "a", Name: "pay", Gate: agent.GateApproval, Rule: "interrupt_on.pay.when"},
		agent.CallVerdict{ID: "b", Name: "delegate_to_agent", Gate: agent.GateApproval},
	), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{Pending: pending}, nil).Once()
}
