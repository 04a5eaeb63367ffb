package direct

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// renewals is how often a lease is renewed within its time.
const renewals = 3

// leases are the turns that this process drives, each with the function that stops it.
type leases struct {
	mu   sync.Mutex
	held map[agent.TurnID]context.CancelCauseFunc
}

func (l *leases) hold(id agent.TurnID, stop context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[id] = stop
}

func (l *leases) letGo(id agent.TurnID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

// renewLeases keeps the sessions of the turns that run here, until the driver stops. A turn that was taken away is stopped.
func (d *Driver) renewLeases() {
	tick := time.NewTicker(turns.DirectLease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-d.work.Done():
			return
		case <-tick.C:
		}
		if err := d.renewOnce(); err != nil && d.work.Err() == nil {
			d.Logger.Warn("renew the leases of direct turns", zap.Error(err))
		}
	}
}

func (d *Driver) renewOnce() error {
	d.leases.mu.Lock()
	driven := maps.Clone(d.held)
	d.leases.mu.Unlock()
	if len(driven) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(d.work, turns.DirectLease/renewals)
	defer cancel()
	held, err := d.Turns.Store.Renew(ctx, slices.Collect(maps.Keys(driven)), time.Now().Add(turns.DirectLease))
	if err != nil {
		return err
	}
	for _, id := range held {
		delete(driven, id)
	}
	for _, stop := range driven {
		stop(errLost)
	}
	return nil
}
