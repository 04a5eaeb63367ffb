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
	// defaultMaxTurns is the number of turns that a process runs at once. Further ones are durable.
	defaultMaxTurns = 256
	// retryFor is how long an action is tried again before the turn is handed over.
	retryFor = 20 * time.Second
)

var (
	errStopping = errors.New("the process is stopping")
	errLost     = errors.New("the turn was taken from this process")
)

// Config configures [New].
type Config struct {
	Turns *turns.Turns
	// Start starts the workflow of a recorded turn. carry is the turn's state, nil if it has not begun.
	Start    func(ctx context.Context, t *turns.TurnRef, carry *workflows.Carry) error
	Watch    Watch // counts direct turns; may be nil
	Logger   *zap.Logger
	MaxTurns int           // that run at once; 0: 256
	MaxTime  time.Duration // after which a turn becomes durable, before its next step; 0: never
}

// Watch counts direct turns.
type Watch interface {
	// DirectTurns counts a turn that begins (+1) or ends here (-1).
	DirectTurns(change int)
	// DirectFallback counts a turn that became durable, or was durable from its beginning because it could not be direct.
	DirectFallback(reason agent.Fallback)
}

type noWatch struct{}

func (noWatch) DirectTurns(int)               {}
func (noWatch) DirectFallback(agent.Fallback) {}

// Driver runs direct turns.
type Driver struct {
	Config

	leases leases
	slots  *semaphore.Weighted
	work   context.Context // of all turns; Stop cancels it
	stop   context.CancelCauseFunc

	mu       sync.Mutex // turns.Add is not called once stopping is set
	turns    sync.WaitGroup
	stopping bool
}

// New returns a driver.
func New(c Config) (*Driver, error) {
	if c.Turns == nil || c.Start == nil {
		return nil, errors.New("direct: Turns and Start are required")
	}
	if c.MaxTurns <= 0 {
		c.MaxTurns = defaultMaxTurns
	}
	if c.Watch == nil {
		c.Watch = noWatch{}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	d := &Driver{Config: c, slots: semaphore.NewWeighted(int64(c.MaxTurns))}
	d.work, d.stop = context.WithCancelCause(context.Background())
	go d.renewLeases()
	return d, nil
}

// Submit records a request and begins its turn here. checked may be nil; then the request is checked first. If the session is busy, the turn waits
// as a workflow, at a position above 0. If the turn was recorded before, the receipt says that the request joined it. If this process cannot run
// the turn, refused is the reason, nothing is recorded, and the caller starts a durable turn. An error means that nothing was started; if that is
// unknown, the receipt says so.
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
		if unsure && !begun.New { // the failed attempt recorded it
			defer leave()
			err = d.startRecorded(ctx, &begun, &r, agent.FallbackTrouble)
			return r, 0, "", err
		}
		if r.Joined = !begun.New; r.Joined { // an earlier request drives it
			return r, 0, "", nil
		}
		go func() {
			defer leave()
			d.drive(&begun)
		}()
	case turns.VerdictBehind:
		position = begun.Position
		err = d.startRecorded(ctx, &begun, &r, agent.FallbackSession)
		return r, position, "", err
	case turns.VerdictDuplicate, turns.VerdictRefused:
		r.Joined = true
	}
	return r, position, "", nil
}

// enter takes a slot for a turn, or returns the reason why it cannot.
func (d *Driver) enter() agent.Fallback {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
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

// startRecorded starts the workflow of a turn that was recorded and is not driven here. If Temporal is not available, upkeep starts it once the
// turn's lease has expired.
func (d *Driver) startRecorded(ctx context.Context, begun *turns.BeginTurnResult, r *agent.Receipt, reason agent.Fallback) error {
	err := d.startWorkflow(context.WithoutCancel(ctx), &begun.Turn, nil, reason)
	if err != nil && !isFinal(err) {
		d.Logger.Warn("start a recorded turn", logs.Turn(begun.Turn.TurnID, begun.Turn.Tenant, begun.Turn.InstanceID), zap.Error(err))
		r.StartUnknown = true
		return nil
	}
	return err
}

// startWorkflow starts the turn's workflow, and then records that the workflow drives the turn. In this order there is always a lease or a
// workflow. The turn may have ended before it is recorded.
func (d *Driver) startWorkflow(ctx context.Context, t *turns.TurnRef, carry *workflows.Carry, reason agent.Fallback) error {
	if err := d.Start(ctx, t, carry); err != nil {
		return err
	}
	d.Watch.DirectFallback(reason)
	err := d.Turns.Store.HandOver(ctx, t.TurnID, t.TurnID.WorkflowID(), reason)
	if agent.CodeOf(err) == agent.CodeConflict {
		return nil
	}
	return err
}

// Stop refuses new turns and hands over the running ones. It returns once no turn is left, or with ctx's error.
func (d *Driver) Stop(ctx context.Context) error {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	d.stop(errStopping)
	done := make(chan struct{})
	go func() {
		d.turns.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
