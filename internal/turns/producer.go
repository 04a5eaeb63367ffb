package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	touchInterval   = 250 * time.Millisecond // how often an idle producer asks whether it may continue
	appendTimeout   = 30 * time.Second       // how long the log may be unavailable before the work fails
	maxPendingBytes = 1 << 20                // how much may wait for the log before emit blocks
	maxReusedEvents = 8                      // a slice of at most this many events is used again
)

// errCancelled is the cause with which a producer ends its work when the turn was cancelled.
var errCancelled = agent.Errorf(agent.CodeCancelled, "", "the turn was cancelled")

// producer writes the events of one model or tool call to the turn's log. It writes the first event at once and those that follow soon after in batches.
// While it is idle, it touches the stream. It cancels the context of the call when the stream is cancelled or closed, when a newer epoch has begun, or
// when the log remains unavailable.
type producer struct {
	log      EventLog
	turn     TurnRef
	fence    agent.Fence
	interval time.Duration
	stop     context.CancelCauseFunc

	flushing sync.Mutex // held while a batch is written
	flushNow func()     // writes the pending events, and ends the work if that fails; the caller holds flushing

	mu      sync.Mutex
	pending []agent.Event
	bytes   int           // the size of pending
	flushed time.Time     // when pending was last emptied
	room    chan struct{} // closed when pending is emptied and was above maxPendingBytes
	wake    chan struct{}
	closing chan struct{}
	ended   chan struct{}
	batch   int64
	failed  error         // why a batch is not in the log; guarded by flushing
	spare   []agent.Event // an empty slice to use for pending; guarded by flushing
}

// errStored is returned if an earlier epoch of a producer has stored its result, so that its events stay valid.
var errStored = errors.New("an earlier attempt has stored its result")

// storedCheck reports whether an earlier epoch of a producer has stored its result.
type storedCheck func(context.Context) (bool, error)

// beginEpoch begins a new epoch of a producer and voids the events of earlier epochs. If an earlier epoch has stored its result, the events stay valid
// and the error is errStored. isStored is called after the new epoch has begun, because from then on earlier epochs cannot store anything. It is nil for
// a producer that has no result.
func (ts *Turns) beginEpoch(ctx context.Context, t TurnRef, producer string, isStored storedCheck) (agent.Fence, agent.Appended, error) {
	fence, at, err := ts.Log.Begin(ctx, string(t.TurnID), producer)
	if err != nil {
		return fence, at, err
	}
	if fence.Epoch > 1 && isStored != nil {
		stored, err := isStored(ctx)
		if stored && err == nil {
			err = errStored
		}
		if err != nil {
			return fence, at, err
		}
	}
	at, err = ts.Log.Reset(ctx, fence)
	return fence, at, err
}

// startProducer starts a producer in a new epoch, like beginEpoch. The returned context is for the work. Its cause is the reason why the producer ended it.
func (ts *Turns) startProducer(ctx context.Context, t TurnRef, name string, isStored storedCheck) (*producer, context.Context, error) {
	fence, at, err := ts.beginEpoch(ctx, t, name, isStored)
	if errors.Is(err, errStored) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, logError(err)
	}
	if at.Cancelled {
		return nil, nil, errCancelled
	}
	work, stop := context.WithCancelCause(ctx)
	p := &producer{
		log: ts.Log, turn: t, fence: fence, interval: ts.BatchInterval, stop: stop, room: make(chan struct{}),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	p.flushNow = func() { p.endWork(p.flushLocked(ctx)) }
	go p.run(ctx)
	return p, work, nil
}

// emit writes events to the log: at once if the last batch was written at least the interval ago, otherwise with the next batch. It blocks while more
// than maxPendingBytes wait for the log.
func (p *producer) emit(ctx context.Context, events ...agent.Event) error {
	for i := range events {
		events[i].Meta.TurnID, events[i].Meta.AgentInstanceID = p.turn.TurnID, p.turn.InstanceID
	}
	p.mu.Lock()
	for p.bytes > maxPendingBytes {
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.mu.Lock()
	}
	for i := range events {
		p.add(events[i])
	}
	due := time.Since(p.flushed) >= p.interval
	p.mu.Unlock()
	if due && p.flushing.TryLock() {
		p.flushNow()
		p.flushing.Unlock()
		return context.Cause(ctx)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return context.Cause(ctx)
}

// add appends an event to pending. It merges a token into the token before it, so that a batch of tokens is one event.
func (p *producer) add(e agent.Event) {
	p.bytes += len(e.Text) + len(e.Output) + len(e.Input)
	if n := len(p.pending); n > 0 && e.Type == agent.EventToken && p.pending[n-1].Type == agent.EventToken {
		p.pending[n-1].Text += e.Text
		return
	}
	p.pending = append(p.pending, e)
}

func (p *producer) run(ctx context.Context) {
	defer close(p.ended)
	idle := time.NewTimer(touchInterval)
	defer idle.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-ctx.Done():
			return
		case <-p.wake:
			if wait := p.interval - p.sinceFlush(); wait > 0 {
				select {
				case <-time.After(wait):
				case <-p.closing:
					return
				}
			}
			p.endWork(p.flush(ctx))
			idle.Reset(touchInterval)
		case <-idle.C:
			if p.sinceFlush() >= touchInterval {
				p.touch(ctx)
			}
			idle.Reset(touchInterval)
		}
	}
}

// touch asks the log whether the work may continue, and ends it if not. It ignores other errors of the log: the next batch reports them.
func (p *producer) touch(ctx context.Context) {
	at, err := p.log.Touch(ctx, p.fence)
	if err == nil && at.Cancelled {
		err = errCancelled
	}
	if errors.Is(err, errCancelled) || errors.Is(err, agent.ErrFenced) || errors.Is(err, agent.ErrStreamClosed) {
		p.endWork(err)
	}
}

// sinceFlush returns how long ago events were last given to the log.
func (p *producer) sinceFlush() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.flushed)
}

func (p *producer) endWork(err error) {
	if err != nil {
		p.stop(err)
	}
}

// flush appends the pending events as one batch. While the log is unavailable, it retries for up to appendTimeout.
func (p *producer) flush(ctx context.Context) error {
	p.flushing.Lock()
	defer p.flushing.Unlock()
	return p.flushLocked(ctx)
}

func (p *producer) flushLocked(ctx context.Context) error {
	if p.failed != nil { // an earlier batch is missing
		return p.failed
	}
	p.mu.Lock()
	events := p.pending
	if len(events) == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.bytes > maxPendingBytes { // emit may be blocked
		close(p.room)
		p.room = make(chan struct{})
	}
	p.pending, p.bytes, p.flushed, p.spare = p.spare, 0, time.Now(), nil
	p.mu.Unlock()
	p.batch++
	at, err := backoff.Retry(ctx, func() (agent.Appended, error) {
		at, err := p.log.Append(ctx, p.fence, p.batch, events)
		if err != nil && agent.CodeOf(err) != agent.CodeUnavailable {
			return at, backoff.Permanent(err)
		}
		return at, err
	}, backoff.WithMaxElapsedTime(appendTimeout))
	if err != nil {
		p.failed = logError(err)
		return p.failed
	}
	if len(events) <= maxReusedEvents {
		clear(events)
		p.spare = events[:0]
	}
	if at.Cancelled {
		return errCancelled
	}
	return nil
}

// end flushes and ends the producer. When it returns nil, the log has the events and will store them soon, or together with the step (see
// saveWithEvents). A cancelled stream is not an error, because the events were written.
func (p *producer) end(ctx context.Context) error {
	select {
	case <-p.closing:
	default:
		close(p.closing)
	}
	<-p.ended
	defer p.stop(context.Canceled)
	return p.flushAll(ctx)
}

// close ends the producer. When it returns nil, the events are stored.
func (p *producer) close(ctx context.Context) error {
	if err := p.end(ctx); err != nil {
		return err
	}
	return logError(p.log.Sync(ctx, p.fence))
}

// sync flushes and waits until the producer's epoch and its events are stored.
func (p *producer) sync(ctx context.Context) error {
	if err := p.flushAll(ctx); err != nil {
		return err
	}
	return logError(p.log.Sync(ctx, p.fence))
}

// flushAll is flush, except that a cancelled stream is not an error.
func (p *producer) flushAll(ctx context.Context) error {
	if err := p.flush(ctx); err != nil && !errors.Is(err, errCancelled) {
		return err
	}
	return nil
}

// saveWithEvents stores a step of a producer: in one transaction with the producer's events if the log allows that, otherwise after them.
func (ts *Turns) saveWithEvents(ctx context.Context, f agent.Fence, save func(agent.UnstoredEvents) error) error {
	if events := ts.Log.Take(f); events != nil {
		err := save(events)
		events.Done(false) // has no effect if save has called Done
		if !errors.Is(err, agent.ErrEventsNotStored) {
			return err
		}
	}
	if err := ts.Log.Sync(ctx, f); err != nil {
		return logError(err)
	}
	return save(nil)
}

// logError returns an error of the log as an internal one, so that middleware does not retry it like an error of a provider.
func logError(err error) error {
	if err == nil || errors.Is(err, agent.ErrFenced) || errors.Is(err, agent.ErrStreamClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	return &agent.Error{Code: agent.CodeInternal, Op: "event log", Err: fmt.Errorf("%w", err)}
}
