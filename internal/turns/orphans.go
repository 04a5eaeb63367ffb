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
	// orphanAfter is how long a recorded turn may have no workflow: the turn is recorded a moment before its workflow is started.
	orphanAfter = 10 * time.Second
	// startWithin bounds the age of a turn that is started late, because nobody expects the answer of an older one.
	startWithin = 24 * time.Hour
)

// EndOrphan calls [Turns.EndIfOrphaned] for the turn with an id. It reports true if the turn had ended before, and false if there is no such turn.
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

// EndIfOrphaned ends a turn whose workflow is closed or gone, and reports whether it did. It starts a turn that can still run instead: one that was
// recorded but never began, or a direct turn whose lease has expired. For a turn that is not recorded, only t.Record.TurnID has to be set.
func (ts *Turns) EndIfOrphaned(ctx context.Context, t *agent.TurnState) (ended bool, err error) {
	if time.Now().Before(t.Lease) {
		return false, nil
	}
	r := &t.Record
	isDirect := r.Mode == agent.ModeDirect
	workflow, err := ts.Runs.Look(ctx, cmp.Or(r.WorkflowID, r.TurnID.WorkflowID()))
	switch {
	case err != nil:
		return false, err
	case workflow.Running && isDirect: // the process that ran the turn has started the workflow but could not record that
		return false, ts.handOver(ctx, r.TurnID, agent.FallbackTrouble)
	case workflow.Running, !workflow.Exists && !isDirect && time.Since(t.StartedAt) < orphanAfter:
		return false, nil
	case workflow.Exists:
		return true, ts.Terminate(ctx, r.TurnID)
	}
	canStart, err := ts.canStart(ctx, t)
	if err != nil {
		return false, err
	}
	if canStart {
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
	return tail.LastIndex == 0, err // if there are events, the turn had a workflow, which was deleted
}

// startOrphan starts the workflow of a recorded turn. A turn that was direct continues after its stored steps.
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

// handOver records that a workflow now runs a direct turn. It does nothing if the turn has ended meanwhile.
func (ts *Turns) handOver(ctx context.Context, id agent.TurnID, why agent.Fallback) error {
	err := ts.Store.HandOver(ctx, id, id.WorkflowID(), why)
	if agent.CodeOf(err) == agent.CodeConflict {
		return nil
	}
	return err
}

// isStartRefused reports whether Temporal refused to start a workflow, so that a retry cannot help.
func isStartRefused(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied:
		return true
	default:
		return false
	}
}
