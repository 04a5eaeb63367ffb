package job_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

func TestEnvelope(t *testing.T) {
	j, err := job.Parse(golden(t, "seed_job.json"))
	require.NoError(t, err)
	j.RetryCount, j.Context.Agent, j.UserID = 2, "analyst", "ana"
	e := j.Envelope("acme")
	require.Equal(t, agent.Envelope{
		Channel: "jobs", Sender: "ana",
		Request: agent.TurnRequest{
			TurnID: "job-27c67fd7-10f9-5294-a06e-4852d81342ca-r2", Agent: "analyst", SessionID: "sess-xyz789",
			Message: "fetch flight prices from NYC to LAX, sort by price, show cheapest 3",
			Context: agent.InvocationContext{Tenant: "acme", UserID: "ana", Metadata: map[string]any{
				"job_id": "550e8400-e29b-41d4-a716-446655440000", "run_id": "run-2024-001", "node_id": "agent_analyze_data",
				"workflow_tag": "main", "workflow_owner": "sdutt", "retry_count": 2,
				"previous_results": []any{
					map[string]any{"node_id": "fetch_data", "result_ref": "cas://sha256:abc123...", "preview": map[string]any{"count": 150.0}},
				},
				"workflow_state": map[string]any{"current_step": 5.0, "total_steps": 10.0},
			}},
			Limits: &agent.Limits{WallTimeSec: 300}, Channel: "jobs", OnBusy: agent.OnBusyQueue, Approvals: agent.ApprovalsRefuse,
		},
	}, e)
	require.NoError(t, e.Request.Validate(0))
}

func TestTheSmallestEnvelope(t *testing.T) {
	j, err := job.Parse([]byte(minimal("")))
	require.NoError(t, err)
	require.Equal(t, agent.TurnRequest{
		TurnID: "job-j", Message: "p", Context: agent.InvocationContext{Metadata: map[string]any{"job_id": "j"}},
		Limits: &agent.Limits{WallTimeSec: 300}, Channel: "jobs", OnBusy: agent.OnBusyQueue, Approvals: agent.ApprovalsRefuse,
	}, j.Envelope("").Request)
	j.WorkflowOwner = "owner"
	require.Equal(t, "owner", j.Envelope("").Sender)
}

func TestTurnID(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		retry int
		want  agent.TurnID
	}{
		"plain":                {"test-job-123", 0, "job-test-job-123"},
		"a retry":              {"test-job-123", 7, "job-test-job-123-r7"},
		"with a slash":         {"a/b", 0, "job-2610c405-9ae4-5386-9954-3d322d1bb7c5"},
		"with a slash, again":  {"a/b", 1, "job-2610c405-9ae4-5386-9954-3d322d1bb7c5-r1"},
		"the longest":          {strings.Repeat("j", 119), 100, agent.TurnID("job-" + strings.Repeat("j", 119) + "-r100")},
		"too long":             {strings.Repeat("j", 120), 0, "job-e8b96451-d10c-596e-b440-63b31e607303"},
		"like another's retry": {"test-job-123-r7", 0, "job-72d0730d-bb33-555e-93a5-0fd2be901f61"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range []string{"", agent.DefaultTenant} {
				got := job.TurnID(who, c.id, c.retry)
				require.Equal(t, c.want, got)
				require.True(t, agent.ValidName(string(got)))
			}
		})
	}
}

// TestTenantsShareNoTurn: the same job id of another tenant is another job, however the two are cut.
func TestTenantsShareNoTurn(t *testing.T) {
	require.Equal(t, agent.TurnID("job-ad4b7c79-0dbb-56f2-8f0e-d171174d50e5"), job.TurnID("acme", "j", 0))
	require.Equal(t, job.TurnID("acme", "j", 0)+"-r3", job.TurnID("acme", "j", 3))
	made := map[agent.TurnID]string{}
	for _, who := range []string{"", "acme", "acme2", "acm", "e"} {
		for _, id := range []string{"j", "2\x00j", "ej", "a/b", "acme\x00j", strings.Repeat("j", 300), "x-r7", "x-r1"} {
			for _, retry := range []int{0, 1, 7} {
				got := job.TurnID(who, id, retry)
				require.True(t, agent.ValidName(string(got)))
				require.NotContains(t, made, got)
				made[got] = who + " " + id
			}
		}
	}
}
