package pgstream

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// forget removes a stream that this process does not own any more. Its followers read the database from then on.
func (l *Log) forget(s *live) {
	l.liveMu.Lock()
	if l.streams[s.id] == s {
		delete(l.streams, s.id)
	}
	l.liveMu.Unlock()
	l.dirtyMu.Lock()
	delete(l.dirty, s)
	l.dirtyMu.Unlock()
	l.relayed.refresh(s.id)
	if l.hub.refresh(s.id) {
		l.announcer.watch(s.id)
	}
}

// lose ends the ownership of a stream that was taken or closed. Its producers are fenced: what they have shown may be void.
func (l *Log) lose(s *live, fence bool) {
	s.mu.Lock()
	if s.state != lost {
		l.unstored.Add(-int64(s.unstored))
	}
	s.state, s.sending, s.unstored = lost, nil, 0
	fences := make([]agent.Fence, 0, len(s.producers))
	for name, p := range s.producers {
		fences = append(fences, agent.Fence{StreamID: s.id, Producer: name, Epoch: p.epoch})
	}
	s.wakeLocked()
	s.mu.Unlock()
	if fence {
		l.lostMu.Lock()
		for _, f := range fences {
			l.lostFences.Add(f, struct{}{})
		}
		l.lostMu.Unlock()
	}
	l.forget(s)
}

// isLost reports whether a fence is of a stream that this process has lost since.
func (l *Log) isLost(f agent.Fence) bool {
	l.lostMu.Lock()
	defer l.lostMu.Unlock()
	return l.lostFences.Contains(f)
}

// releaseAll releases every stream when the log stops, after storing what is pending.
func (l *Log) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	var err error
	left := l.owned()
	for ; len(left) > 0 && err == nil && ctx.Err() == nil; left = l.owned() {
		for _, s := range left {
			if s.release() {
				l.forget(s)
				continue
			}
			l.markDirty(s)
		}
		if err = l.storeDue(ctx); err == nil {
			pause(ctx, writeLook)
		}
	}
	if len(left) > 0 {
		l.cfg.Logger.Warn("store events at the end; what was not stored is lost", zap.Int("streams", len(left)), zap.Error(err))
	}
}
