package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/workflows"
)

// outside is the world around a store: turns that stop when they are asked to, Temporal's executions, a bucket.
type outside struct {
	*bench

	mu      sync.Mutex
	deleted []string
	removed []string
}

func (o *outside) Cancel(ctx context.Context, id agent.TurnID, _ agent.CancelRequest) error {
	f := finish(string(id), "s-live")
	f.Output.Status, f.Events[1].Status = agent.TurnCancelled, agent.StatusCancelled
	_, err := o.Finish(ctx, f)
	return err
}

func (o *outside) DeleteSchedule(_ context.Context, _, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deleted = append(o.deleted, name)
	return nil
}

func (o *outside) Delete(ctx context.Context, id string) (int, error) {
	return 1, o.DeleteSchedule(ctx, "", id)
}

func (o *outside) Remove(ctx context.Context, tenant, ref string) error {
	released, err := o.Release(ctx, tenant, ref)
	if err == nil && !released {
		return agent.Errorf(agent.CodeConflict, "", "in use")
	}
	o.removed = append(o.removed, ref)
	return err
}

// The workflow with its activities on a real database, while a turn of the user runs.
func TestErasureWorkflow(t *testing.T) {
	b := newBench(t, postgres.Config{BlobGrace: time.Hour})
	ann, bob := people()[0], people()[1]
	b.leaves(ann)
	b.leaves(bob)
	running := turn("live", "s-live")
	running.UserID, running.Input = "ann.lee", []agent.Message{agent.UserText("wisteria")}
	b.begin(running)
	before := b.dump("marigold")

	e := b.erasure(false)
	world := &outside{bench: b}
	eraser, err := erasure.NewEraser(erasure.EraserConfig{Store: b.Store, Turns: world, Histories: world, Blobs: world, SettleTime: time.Millisecond})
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterWorkflowWithOptions(workflows.Erasure, workflow.RegisterOptions{Name: workflows.ErasureType})
	workflows.RegisterActivities(env, activities.NewErasure(eraser))
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: tenant, ErasureID: e.ID})
	require.NoError(t, env.GetWorkflowError())

	e, err = b.Erasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusCompleted, e.Status)
	require.Empty(t, b.mentions("wisteria"))
	require.Empty(t, b.mentions("ann.lee"))
	require.Equal(t, before, b.dump("marigold"))
	require.Contains(t, world.deleted, "turn/live")
	require.Contains(t, world.deleted, "wisteria2", "the schedule")
	require.Equal(t, []string{cas("a")}, world.removed)
	require.EqualValues(t, 3, e.Report.Turns)
	require.Equal(t, e.Report.Executions.Found, e.Report.Executions.Deleted)
	proof, err := erasure.Verify(&e, "ann.lee")
	require.NoError(t, err)
	require.Empty(t, proof.Faults)
}
