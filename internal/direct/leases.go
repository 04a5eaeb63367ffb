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

// renewals is the number of renewals within the time of a lease.
const renewals = 3

// leases holds the turns that this process drives, each with the function that stops it. The zero value is empty.
type leases struct {
	mu    sync.Mutex
	stops map[agent.TurnID]context.CancelCauseFunc
}

func (l *leases) add(id agent.TurnID, stop context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stops == nil {
		l.stops = map[agent.TurnID]context.CancelCauseFunc{}
	}
	l.stops[id] = stop
}

func (l *leases) remove(id agent.TurnID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.stops, id)
}

// all returns a copy.
func (l *leases) all() map[agent.TurnID]context.CancelCauseFunc {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.stops)
}

// renewLeases renews the leases of running turns until the driver stops. It stops turns whose lease is lost.
func (d *Driver) renewLeases() {
	tick := time.NewTicker(turns.DirectLease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-d.work.Done():
			return
		case <-tick.C:
		}
		if err := d.renewAll(); err != nil && d.work.Err() == nil {
			d.Logger.Warn("renew the leases of direct turns", zap.Error(err))
		}
	}
}

func (d *Driver) renewAll() error {
	stops := d.leases.all()
	if len(stops) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(d.work, turns.DirectLease/renewals)
	defer cancel()
	held, err := d.Turns.Store.Renew(ctx, slices.Collect(maps.Keys(stops)), time.Now().Add(turns.DirectLease))
	if err != nil {
		return err
	}
	for _, id := range held {
		delete(stops, id)
	}
	for _, stop := range stops {
		stop(errLost)
	}
	return nil
}
