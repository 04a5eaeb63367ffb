package direct

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	// maxTurns is how many turns one process runs side by side if the configuration does not say; those beyond are durable.
	maxTurns = 256
	// patience is how long trouble of the runtime's own is waited out before Temporal gets the turn.
	patience = 20 * time.Second
)

var (
	errStopping = errors.New("the process is stopping")
	errLost     = errors.New("the turn was taken from this process")
)

// Config is what [New] needs.
type Config struct {
	Turns *turns.Turns
	// Start starts the workflow of a turn that is recorded; carry is where it stands, nil when it has not begun.
	Start    func(ctx context.Context, t *turns.TurnRef, carry *workflows.Carry) error
	Watch    Watch // nil: nobody watches
	Logger   *zap.Logger
	MaxTurns int           // direct turns side by side; 0: 256
	MaxTime  time.Duration // a turn that lasts longer becomes durable before its next step; 0: none does
}

// Watch is told of direct turns.
type Watch interface {
	// DirectTurns counts turns that begin (+1) and end here (-1).
	DirectTurns(change int)
	// DirectFallback counts a turn that was to be direct and is not, or no longer.
	DirectFallback(why agent.Fallback)
}

type unwatched struct{}

func (unwatched) DirectTurns(int)               {}
func (unwatched) DirectFallback(agent.Fallback) {}

// Driver runs direct turns.
type Driver struct {
	Config

	leases leases
	slots  *semaphore.Weighted
	work   context.Context // of all turns: Stop ends it
	stop   context.CancelCauseFunc
	turns  sync.WaitGroup
	mu     sync.Mutex // guards the change from Add to Wait
	over   bool
}

// New returns a driver.
func New(c Config) (*Driver, error) {
	if c.Turns == nil || c.Start == nil {
		return nil, errors.New("direct: Turns and Start are needed")
	}
	if c.MaxTurns <= 0 {
		c.MaxTurns = maxTurns
	}
	if c.Watch == nil {
		c.Watch = unwatched{}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	d := &Driver{Config: c, slots: semaphore.NewWeighted(int64(c.MaxTurns))}
	d.work, d.stop = context.WithCancelCause(context.Background())
	go d.renewLeases()
	return d, nil
}

// Submit records a request and runs its turn here, if it can run at once. The request is checked first, unless checked says what that gave.
// Submit returns when the turn has begun, or has been handed to Temporal because its session is busy, or was there before. If this process cannot
// run it, refused says why, and the caller starts it as a durable one. An error means that nothing was started; where nobody knows, the receipt
// says so.
func (d *Driver) Submit(
	ctx context.Context, req agent.TurnRequest, checked *turns.Checked,
) (r agent.Receipt, position int, refused agent.Fallback, err error) {
	if refused = d.enter(); refused != "" {
		d.Watch.DirectFallback(refused)
		return agent.Receipt{}, 0, refused, nil
	}
	leave := sync.OnceFunc(d.leave)
	defer func() {
		if err != nil || r.Joined || position > 0 {
			leave()
		}
	}()
	begun, unsure, err := d.Turns.RecordTurn(ctx, req, turns.BeginTurnInput{
		WorkflowID: req.TurnID.WorkflowID(), RunID: string(req.TurnID), Direct: true, StartByID: true, Checked: checked,
	})
	if unsure && err != nil {
		d.Logger.Warn("record a direct turn", logs.Turn(req.TurnID, req.Context.TenantName(), ""), zap.Error(err))
		leave()
		session := cmp.Or(req.SessionID, agent.SessionID(req.TurnID))
		return agent.Receipt{TurnID: req.TurnID, SessionID: session, StreamID: string(req.TurnID), StartUnknown: true}, 0, "", nil
	}
	if err != nil {
		return r, 0, "", err
	}
	r = agent.Receipt{TurnID: begun.Turn.TurnID, SessionID: begun.Turn.SessionID, StreamID: string(begun.Turn.TurnID)}
	switch begun.Verdict {
	case turns.VerdictReady:
		if unsure && !begun.New { // recorded by the attempt that failed
			defer leave()
			err = d.handBegun(ctx, &begun, &r, agent.FallbackTrouble)
			return r, 0, "", err
		}
		if r.Joined = !begun.New; r.Joined { // the same request a moment ago: somebody drives it
			return r, 0, "", nil
		}
		go func() {
			defer leave()
			d.drive(&begun)
		}()
	case turns.VerdictBehind:
		position = begun.Position
		err = d.handBegun(ctx, &begun, &r, agent.FallbackSession)
		return r, position, "", err
	case turns.VerdictDuplicate, turns.VerdictRefused:
		r.Joined = true
	}
	return r, position, "", nil
}

// enter takes a place for a turn, or says why there is none.
func (d *Driver) enter() agent.Fallback {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return agent.FallbackStop
	case !d.slots.TryAcquire(1):
		return agent.FallbackLimit
	}
	d.turns.Add(1)
	d.Watch.DirectTurns(1)
	return ""
}

func (d *Driver) leave() {
	d.Watch.DirectTurns(-1)
	d.slots.Release(1)
	d.turns.Done()
}

// handBegun makes a recorded turn durable that is not driven here: it has to wait for its session, which is what Temporal is good at, or
// its beginning failed. What cannot be handed over now is when its lease has run out.
func (d *Driver) handBegun(ctx context.Context, begun *turns.BeginTurnResult, r *agent.Receipt, why agent.Fallback) error {
	err := d.give(context.WithoutCancel(ctx), &begun.Turn, nil, why)
	if err != nil && !isFinal(err) {
		d.Logger.Warn("start a recorded turn", logs.Turn(begun.Turn.TurnID, begun.Turn.Tenant, begun.Turn.InstanceID), zap.Error(err))
		r.StartUnknown = true
		return nil
	}
	return err
}

// give starts the turn's workflow and then records that it has it: in this order, so that nobody ever finds a turn with neither a lease nor
// a workflow. By then the turn may have ended.
func (d *Driver) give(ctx context.Context, t *turns.TurnRef, carry *workflows.Carry, why agent.Fallback) error {
	if err := d.Start(ctx, t, carry); err != nil {
		return err
	}
	d.Watch.DirectFallback(why)
	err := d.Turns.Store.HandOver(ctx, t.TurnID, t.TurnID.WorkflowID(), why)
	if agent.CodeOf(err) == agent.CodeConflict {
		return nil
	}
	return err
}

// Stop lets no turn begin and hands over those that run. It returns when all have left, or with ctx's error.
func (d *Driver) Stop(ctx context.Context) error {
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	d.stop(errStopping)
	gone := make(chan struct{})
	go func() {
		d.turns.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
