package turns

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// defaultTokenInterval is the default time between two signals of a model call.
const defaultTokenInterval = 250 * time.Millisecond

// tokenSignals sends the text of one model call to the workflow that asked for it, in batches. A batch is sent after the previous one has arrived, so
// that under load batches get longer instead of piling up. Sending is best effort.
type tokenSignals struct {
	runs    Runs
	to      agent.StreamTo
	base    agent.TokenBatch
	logger  *zap.Logger
	mu      sync.Mutex
	text    strings.Builder
	closing chan struct{}
	ended   chan struct{}
}

// signalTokens starts to send the text of a model call. It returns nil if in.StreamTo is nil; the methods of a nil *tokenSignals do nothing.
func (ts *Turns) signalTokens(ctx context.Context, in CallModelInput, epoch int64) *tokenSignals {
	if in.StreamTo == nil {
		return nil
	}
	s := &tokenSignals{
		runs: ts.Runs, to: *in.StreamTo, logger: ts.Logger, closing: make(chan struct{}), ended: make(chan struct{}),
		base: agent.TokenBatch{TurnID: in.TurnID, Step: in.Step, Attempt: epoch},
	}
	go s.run(ctx)
	return s
}

func (s *tokenSignals) add(text string) {
	if s == nil || text == "" {
		return
	}
	s.mu.Lock()
	s.text.WriteString(text)
	s.mu.Unlock()
}

func (s *tokenSignals) run(ctx context.Context) {
	defer close(s.ended)
	interval := defaultTokenInterval
	if s.to.IntervalMS > 0 {
		interval = time.Duration(s.to.IntervalMS) * time.Millisecond
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !s.send(ctx, false) {
				return
			}
		case <-s.closing:
			s.send(ctx, true)
			return
		case <-ctx.Done():
			return
		}
	}
}

// send sends the text that has arrived since the last batch. done marks the last batch. It returns false if the receiver is gone.
func (s *tokenSignals) send(ctx context.Context, done bool) bool {
	s.mu.Lock()
	text := s.text.String()
	s.text.Reset()
	s.mu.Unlock()
	if text == "" && !done {
		return true
	}
	s.base.Batch++
	batch := s.base
	batch.Text, batch.Done = text, done
	if err := s.runs.Tokens(ctx, s.to, batch); err != nil {
		s.logger.Warn("signalling tokens", zap.String("workflow", s.to.WorkflowID), zap.Error(err))
		return agent.CodeOf(err) != agent.CodeNotFound
	}
	return true
}

// close sends the last batch and waits until it is sent.
func (s *tokenSignals) close() {
	if s == nil {
		return
	}
	close(s.closing)
	<-s.ended
}
