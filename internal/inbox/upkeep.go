package inbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

const (
	// startingUp is how long a turn that is recorded may be without a workflow: a door records it a moment before it starts it.
	startingUp = 10 * time.Second
	// startWithin is how old a turn may be that is started after all: whoever asked for an older one does not expect it any more.
	startWithin = 24 * time.Hour
	// upkeepEvery is the time between two looks at turns that nobody may be driving.
	upkeepEvery = 5 * time.Second
	// wakeLook: every so many looks are also for stalled turns.
	wakeLook = 6
	// Bounds of one look.
	upkeepTurns    = 200
	upkeepAtOnce   = 8
	upkeepPatience = time.Minute
)

// Upkeep starts turns that are recorded and were not started, goes on with direct ones whose process died, wakes stalled ones, and adds up
// usage by day, until ctx ends.
func (b *Inbox) Upkeep(ctx context.Context) {
	for look := 1; ; look++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(upkeepEvery + rand.N(upkeepEvery/2)): // not all processes together
		}
		if err := b.StartStranded(ctx); err != nil && ctx.Err() == nil {
			b.Logger.Warn("start turns that nobody drives", zap.Error(err))
		}
		if err := b.addUpUsage(ctx); err != nil && ctx.Err() == nil {
			b.Logger.Warn("add up usage by day", zap.Error(err))
		}
		if look%wakeLook != 0 {
			continue
		}
		woken, err := b.WakeStalledTurns(ctx, stalledAfter)
		if err != nil && ctx.Err() == nil {
			b.Logger.Warn("wake stalled turns", zap.Error(err))
		}
		if woken > 0 {
			b.Logger.Info("woke stalled turns", zap.Int("woken", woken))
		}
	}
}

func (b *Inbox) addUpUsage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepPatience)
	defer cancel()
	_, err := b.Store.AddUpUsage(ctx)
	return err
}

// StartStranded looks once at the turns that nobody may be driving, unless another process does so now.
func (b *Inbox) StartStranded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepPatience)
	defer cancel()
	_, err := b.Store.Stranded(ctx, startingUp, upkeepTurns, func(ctx context.Context, ids []agent.TurnID) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(upkeepAtOnce)
		for _, id := range ids {
			g.Go(func() error {
				_, err := b.EndOrphan(ctx, id)
				return err
			})
		}
		return g.Wait()
	})
	return err
}

// endOrphan looks after a turn that nobody may be driving: it starts one that was recorded and never begun, and a direct one whose lease
// has run out, and ends one whose workflow is closed or gone. It reports whether it has ended it.
func (b *Inbox) endOrphan(ctx context.Context, id agent.TurnID, t *agent.TurnState) (bool, error) {
	if time.Now().Before(t.Lease) {
		return false, nil
	}
	direct := t.Record.Mode == agent.ModeDirect
	closed, missing, err := b.Runs.look(ctx, cmp.Or(t.Record.WorkflowID, id.WorkflowID()))
	switch {
	case err != nil:
		return false, err
	case !closed && direct: // its workflow was started, and the news was lost
		return false, b.handOver(ctx, id, agent.FallbackTrouble)
	case !closed, missing && !direct && time.Since(t.StartedAt) < startingUp:
		return false, nil
	case !missing:
		return true, b.Turns.Terminate(ctx, id)
	}
	resumes, err := b.canStart(ctx, id, t)
	if err != nil {
		return false, err
	}
	if resumes {
		if err := b.startOrphan(ctx, id, t); !refusedForGood(err) {
			return false, err
		}
	}
	return true, b.Turns.Terminate(ctx, id)
}

// startOrphan starts the workflow of a recorded turn. One that a process drove goes on behind the steps that are stored.
func (b *Inbox) startOrphan(ctx context.Context, id agent.TurnID, t *agent.TurnState) error {
	b.Logger.Info("start a turn that nobody drives", logs.Turn(id, t.Record.Tenant, t.Record.InstanceID), zap.String("mode", string(t.Record.Mode)))
	err := b.Runs.Start(ctx, requestByID(id, t.Record.SessionID, t.Record.Tenant))
	if err != nil || t.Record.Mode != agent.ModeDirect {
		return err
	}
	if b.Direct != nil {
		b.Direct.Watch.DirectFallback(agent.FallbackLost)
	}
	return b.handOver(ctx, id, agent.FallbackLost)
}

// canStart reports whether a turn without a workflow is to get one.
func (b *Inbox) canStart(ctx context.Context, id agent.TurnID, t *agent.TurnState) (bool, error) {
	if !t.Record.StartByID || time.Since(t.StartedAt) > startWithin {
		return false, nil
	}
	if t.Record.Mode == agent.ModeDirect {
		return true, nil
	}
	tail, err := b.Log.Tail(ctx, string(id)) // a workflow that was deleted had begun it
	return tail.LastIndex == 0, err
}

// handOver makes a direct turn the workflow's. One that has ended meanwhile needs none.
func (b *Inbox) handOver(ctx context.Context, id agent.TurnID, why agent.Fallback) error {
	err := b.Store.HandOver(ctx, id, id.WorkflowID(), why)
	if agent.CodeOf(err) == agent.CodeConflict {
		return nil
	}
	return err
}
