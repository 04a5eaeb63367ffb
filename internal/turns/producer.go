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
	touchInterval   = 250 * time.Millisecond // an idle producer asks this often whether it may go on
	appendTimeout   = 30 * time.Second       // the work fails if the log is unavailable for longer; it is repeated later
	producerBacklog = 1 << 20                // bytes that may wait for the log before emit blocks
	keptEvents      = 8                      // the memory of a batch is used again if it has at most so many events
)

// errCancelled is the cause with which a producer ends its work when the turn was cancelled.
var errCancelled = agent.Errorf(agent.CodeCancelled, "", "the turn was cancelled")

// producer writes the events of one model or tool call to the turn's log: the first at once, events that follow soon after it in batches. An
// idle producer touches the stream. The producer cancels the context of the call when the stream is cancelled or closed, when a newer epoch
// has begun, or when the log stays unavailable.
type producer struct {
	log      EventLog
	turn     TurnRef
	fence    agent.Fence
	interval time.Duration
	stop     context.CancelCauseFunc

	flushing sync.Mutex // one batch after the other
	flushNow func()     // stores what is pending and ends the work if that fails; the caller holds flushing

	mu      sync.Mutex
	pending []agent.Event
	bytes   int
	flushed time.Time     // when pending was last taken
	room    chan struct{} // closed when pending was taken above producerBacklog
	wake    chan struct{}
	closing chan struct{}
	ended   chan struct{}
	batch   int64
	failed  error         // of a batch that is not in the log; guarded by flushing
	spare   []agent.Event // memory for the next events; guarded by flushing
}

// errStored says that an earlier epoch of a producer has stored its result, so its events are valid.
var errStored = errors.New("an earlier attempt has stored its result")

// storedCheck reports whether an earlier epoch of a producer has stored its result.
type storedCheck func(context.Context) (bool, error)

// beginEpoch begins a new epoch of a producer and voids the events of earlier ones. If one of these has stored its result, its events stay and the
// error is errStored. isStored is asked after the new epoch has begun, because earlier ones can store nothing from then on. It is nil for a
// producer without a result.
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

// produce begins a new epoch of a producer, as beginEpoch does. The context returned is for the work; its cause says why the producer ended it.
func (ts *Turns) produce(ctx context.Context, t TurnRef, name string, isStored storedCheck) (*producer, context.Context, error) {
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

// emit writes events to the log: at once if the last batch is at least the interval ago, else with the next batch. It blocks while more than
// producerBacklog bytes wait for the log.
func (p *producer) emit(ctx context.Context, events ...agent.Event) error {
	for i := range events {
		events[i].Meta.TurnID, events[i].Meta.AgentInstanceID = p.turn.TurnID, p.turn.InstanceID
	}
	p.mu.Lock()
	for p.bytes > producerBacklog {
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

// add appends an event to pending. It joins a token to the token before it, so that a batch of tokens is one event.
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
			if gather := p.interval - p.sinceFlush(); gather > 0 {
				select {
				case <-time.After(gather):
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

// touch asks the log whether the work may go on, and ends it if not. Other errors of the log are left to the next batch, which is retried.
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

// flush appends the pending events as one batch. It retries for up to appendTimeout while the log is unavailable.
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
	if p.bytes > producerBacklog { // somebody may wait
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
	if len(events) <= keptEvents {
		clear(events)
		p.spare = events[:0]
	}
	if at.Cancelled {
		return errCancelled
	}
	return nil
}

// end flushes and ends the producer. When it returns nil, the log has the events; it stores them soon, or with the step (saveWithEvents). A
// cancelled stream is no error, because its events were written.
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

// close ends the producer: its events are stored when it returns nil.
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

// flushAll is flush without the error of a cancelled stream.
func (p *producer) flushAll(ctx context.Context) error {
	if err := p.flush(ctx); err != nil && !errors.Is(err, errCancelled) {
		return err
	}
	return nil
}

// saveWithEvents stores a step of a producer, with the producer's events in the same transaction if the log allows that, else after them.
func (ts *Turns) saveWithEvents(ctx context.Context, f agent.Fence, save func(agent.UnstoredEvents) error) error {
	if events := ts.Log.Take(f); events != nil {
		err := save(events)
		events.Done(false) // does nothing if the store has said how it ended
		if !errors.Is(err, agent.ErrEventsNotStored) {
			return err
		}
	}
	if err := ts.Log.Sync(ctx, f); err != nil {
		return logError(err)
	}
	return save(nil)
}

// logError marks an error of the log as internal, so that middleware does not retry it like an error of a provider.
func logError(err error) error {
	if err == nil || errors.Is(err, agent.ErrFenced) || errors.Is(err, agent.ErrStreamClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	return &agent.Error{Code: agent.CodeInternal, Op: "event log", Err: fmt.Errorf("%w", err)}
}
