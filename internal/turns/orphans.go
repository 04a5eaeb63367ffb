package turns

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

const (
	// orphanAfter is how long a recorded turn may be without a workflow: a door records it a moment before it starts it.
	orphanAfter = 10 * time.Second
	// startWithin bounds the age of a turn that is started late: whoever asked for an older one does not expect it any more.
	startWithin = 24 * time.Hour
)

// EndOrphan calls [Turns.EndIfOrphaned] for a turn by its id. It reports true for a turn that had ended before and false for one without a record.
func (ts *Turns) EndOrphan(ctx context.Context, id agent.TurnID) (ended bool, err error) {
	t, err := ts.Store.Turn(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	case t.Output != nil:
		return true, nil
	}
	return ts.EndIfOrphaned(ctx, &t)
}

// EndIfOrphaned ends a turn whose workflow is closed or gone, and reports whether it did. A turn that can still run is started instead: one that was
// recorded and never begun, and a direct one whose lease has run out. Of a turn without a record it needs the id alone.
func (ts *Turns) EndIfOrphaned(ctx context.Context, t *agent.TurnState) (ended bool, err error) {
	if time.Now().Before(t.Lease) {
		return false, nil
	}
	r := &t.Record
	direct := r.Mode == agent.ModeDirect
	workflow, err := ts.Runs.Look(ctx, cmp.Or(r.WorkflowID, r.TurnID.WorkflowID()))
	switch {
	case err != nil:
		return false, err
	case workflow.Running && direct: // its driver started the workflow and could not record that
		return false, ts.handOver(ctx, r.TurnID, agent.FallbackTrouble)
	case workflow.Running, !workflow.Exists && !direct && time.Since(t.StartedAt) < orphanAfter:
		return false, nil
	case workflow.Exists:
		return true, ts.Terminate(ctx, r.TurnID)
	}
	start, err := ts.canStart(ctx, t)
	if err != nil {
		return false, err
	}
	if start {
		if err := ts.startOrphan(ctx, t); !isStartRefused(err) {
			return false, err
		}
	}
	return true, ts.Terminate(ctx, r.TurnID)
}

// canStart reports whether a turn without a workflow may be started.
func (ts *Turns) canStart(ctx context.Context, t *agent.TurnState) (bool, error) {
	if !t.Record.StartByID || time.Since(t.StartedAt) > startWithin {
		return false, nil
	}
	if t.Record.Mode == agent.ModeDirect {
		return true, nil
	}
	tail, err := ts.Log.Tail(ctx, string(t.Record.TurnID))
	return tail.LastIndex == 0, err // events without a workflow: it was deleted
}

// startOrphan starts the workflow of a recorded turn. A turn that was direct goes on behind its stored steps.
func (ts *Turns) startOrphan(ctx context.Context, t *agent.TurnState) error {
	r := &t.Record
	ts.Logger.Info("start a turn that nobody drives", logs.Turn(r.TurnID, r.Tenant, r.InstanceID), zap.String("mode", string(r.Mode)))
	err := ts.Runs.Start(ctx, TurnRef{TurnID: r.TurnID, Tenant: r.Tenant, SessionID: r.SessionID, Agent: r.Agent})
	if err != nil || r.Mode != agent.ModeDirect {
		return err
	}
	ts.DirectFallback(agent.FallbackLost)
	return ts.handOver(ctx, r.TurnID, agent.FallbackLost)
}

// handOver records that a direct turn is its workflow's now. A turn that has ended meanwhile stays as it is.
func (ts *Turns) handOver(ctx context.Context, id agent.TurnID, why agent.Fallback) error {
	err := ts.Store.HandOver(ctx, id, id.WorkflowID(), why)
	if agent.CodeOf(err) == agent.CodeConflict {
		return nil
	}
	return err
}

// isStartRefused reports whether Temporal would refuse to start the workflow again.
func isStartRefused(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied:
		return true
	default:
		return false
	}
}
