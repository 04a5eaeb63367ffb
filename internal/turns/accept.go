package turns

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// InboxConfig is what [NewInbox] needs; the first four are required.
type InboxConfig struct {
	Turns          *Turns
	Admission      Admission
	Capacity       Capacity
	Audit          Audit
	Driver         Driver        // nil: every turn is durable
	DirectChannels []string      // channels whose turns are direct unless the request or the agent sets another mode
	IdleCheck      time.Duration // how long a follower waits for an event before it checks that something still runs the turn; 0: 30 s
}

// Driver runs direct turns in this process.
type Driver interface {
	// Submit records a checked request and runs its turn. If this process cannot run the turn, Submit records nothing and returns the reason
	// in fallback. If position is above 0, the turn waits for its session, as a workflow.
	Submit(ctx context.Context, req agent.TurnRequest, checked *Checked) (r agent.Receipt, position int, fallback agent.Fallback, err error)
}

// Inbox implements [agent.Inbox]: every API and channel submits, follows, decides and cancels turns through it.
type Inbox struct {
	InboxConfig

	overloadReads *semaphore.Weighted // bounds the reads for requests that arrive while there is no capacity
}

var _ agent.Inbox = (*Inbox)(nil)

// NewInbox returns an inbox.
func NewInbox(c InboxConfig) *Inbox {
	if c.IdleCheck <= 0 {
		c.IdleCheck = defaultIdleCheck
	}
	return &Inbox{InboxConfig: c, overloadReads: semaphore.NewWeighted(maxOverloadReads)}
}

// Submit checks a request and starts its turn, or joins the turn that was started with the same id before.
func (b *Inbox) Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error) {
	receipt, _, err := b.submit(ctx, e)
	return receipt, err
}

// MessageFrom submits an envelope to the session of a turn, and to the turn's agent unless the request names one.
func (b *Inbox) MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (r agent.Receipt, position int, err error) {
	t, err := b.Turns.Store.Turn(ctx, id)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	e.Request.SessionID, e.Request.Context.Tenant = t.Record.SessionID, t.Record.Tenant
	e.Request.Agent = cmp.Or(e.Request.Agent, t.Record.Agent)
	return b.submit(ctx, e)
}

// submission is a request that is being accepted.
type submission struct {
	*Inbox

	envelope agent.Envelope
	req      agent.TurnRequest // the envelope's request, with the turn's id
	idField  string            // the request field that the turn's id comes from; empty if the id is new

	existing *agent.TurnState // the recorded turn with this id; nil if none was found
	checked  *Checked
	agent    string // the agent that the turn is bound to

	mode       agent.Mode
	modeSource string         // one of the modeBy constants
	fallback   agent.Fallback // why a turn that should be direct is not
}

// The request fields that a turn's id can come from.
const (
	fieldTurnID = "turn_id"
	fieldKey    = "idempotency_key"
)

func (b *Inbox) newSubmission(e agent.Envelope) *submission {
	s := &submission{Inbox: b, envelope: e, req: e.Request}
	switch {
	case s.req.TurnID != "":
		s.idField = fieldTurnID
	case s.req.IdempotencyKey != "":
		s.idField = fieldKey
	}
	s.req.Channel = cmp.Or(s.req.Channel, e.Channel)
	// The id begins with the time, so that new rows are adjacent in every index.
	s.req.TurnID = TurnIDOf(&s.req, uuid.Must(uuid.NewV7()).String())
	s.req.IdempotencyKey = "" // the turn's id replaces it
	if s.req.Context.Tenant == agent.DefaultTenant {
		s.req.Context.Tenant = ""
	}
	return s
}

// submit is [Inbox.Submit] that also returns the turn's position in the queue of its session. After an error nothing was recorded or started.
func (b *Inbox) submit(ctx context.Context, e agent.Envelope) (agent.Receipt, int, error) {
	s := b.newSubmission(e)
	if err := s.validateText(); err != nil {
		return agent.Receipt{}, 0, err
	}
	leave, err := b.Capacity.Enter(ctx)
	if err != nil {
		return s.joinInOverload(ctx, err)
	}
	receipt, position, err := s.accept(ctx)
	s.leaveCapacity(ctx, leave, err == nil && !receipt.Joined && !receipt.StartUnknown && position == 0)
	return receipt, position, err
}

// accept checks a request, records its turn and starts it.
func (s *submission) accept(ctx context.Context) (receipt agent.Receipt, position int, err error) {
	if s.checked, err = s.Turns.Check(ctx, &s.req); err != nil {
		return s.joinOrRefuse(ctx, err)
	}
	s.agent = s.checked.Binding.Agent
	s.chooseMode(s.checked.Plan.Mode)
	receipt, position, err = s.admitAndStart(ctx)
	s.audit(receipt, err)
	return receipt, position, err
}

// Bounds of texts that are stored with a turn unchanged.
const (
	maxUserBytes    = 1024
	maxChannelBytes = 128
)

// validateText refuses a user id or channel that the store cannot keep.
func (s *submission) validateText() error {
	for _, f := range []struct {
		field, text string
		maxBytes    int
	}{{"context.user_id", s.req.Context.UserID, maxUserBytes}, {"channel", s.req.Channel, maxChannelBytes}} {
		if len(f.text) > f.maxBytes || strings.ContainsFunc(f.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return agent.Invalid(f.field, "want at most %d bytes on one line", f.maxBytes)
		}
	}
	return nil
}

// admitAndStart authorises and admits a checked request, and starts its turn.
func (s *submission) admitAndStart(ctx context.Context) (agent.Receipt, int, error) {
	if err := s.authorise(); err != nil {
		return agent.Receipt{}, 0, err
	}
	s.req.Limits = s.limits()
	known, err := s.claimTurnID(ctx)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	if s.existing != nil && s.mode == agent.ModeDirect {
		return s.joinedReceipt(), 0, nil
	}
	switch {
	case s.existing != nil:
		return s.recordAndStart(ctx)
	case known: // its workflow was started by hand a moment ago and has not recorded the turn yet
		return s.joinedReceipt(), 0, nil
	}
	leave, err := s.enterLimits(ctx)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	receipt, position, err := s.start(ctx)
	if isRefusal(err) { // the session is busy, or its queue is full
		leave(ctx)
	}
	return receipt, position, err
}

// start starts a new turn: in this process if its mode is direct and the process can run it, else as a workflow.
func (s *submission) start(ctx context.Context) (agent.Receipt, int, error) {
	if s.mode == agent.ModeDirect {
		receipt, position, fallback, err := s.Driver.Submit(ctx, s.req, s.checked)
		if fallback != "" || position > 0 {
			s.mode, s.modeSource, s.fallback = agent.ModeDurable, modeByFallback, fallback
		}
		if fallback == "" {
			return receipt, position, err
		}
	}
	return s.recordAndStart(ctx)
}

// recordAndStart records the turn and then starts its workflow. Because the turn is recorded first, a full queue is reported at once, a
// session's messages run in the order in which they were accepted, and a recorded turn runs even if this request is cut off. If the outcome of
// either is unknown, the receipt has StartUnknown set. After an error the turn is neither recorded nor started.
func (s *submission) recordAndStart(ctx context.Context) (agent.Receipt, int, error) {
	receipt, req := s.joinedReceipt(), s.req
	if s.existing != nil { // a request that joins need not name the session
		req.SessionID = s.existing.Record.SessionID
	}
	begun, _, err := s.Turns.RecordTurn(ctx, req, BeginTurnInput{
		WorkflowID: s.req.TurnID.WorkflowID(), StartByID: true, Checked: s.checked, Fallback: s.fallback,
	})
	switch {
	case errors.Is(err, agent.ErrOutcomeUnknown):
		s.Turns.Logger.Warn("record a turn", logs.Turn(s.req.TurnID, s.req.Context.TenantName(), ""), zap.Error(err))
		receipt.Joined, receipt.StartUnknown = false, true
		return receipt, 0, nil
	case err != nil:
		return agent.Receipt{}, 0, err
	case begun.Verdict == VerdictDuplicate:
		return receipt, 0, nil
	}
	receipt.Joined = !begun.New
	if begun.New {
		begun.Turn.Summary = s.Turns.messageSummary(&req, &s.checked.Plan)
	}
	ctx = context.WithoutCancel(ctx) // the recorded turn has to start even if the caller has gone
	switch err := s.Turns.Runs.Start(ctx, begun.Turn); {
	case err == nil:
	case isStartRefused(err):
		return agent.Receipt{}, 0, errors.Join(err, s.Turns.Terminate(ctx, s.req.TurnID))
	default:
		s.Turns.Logger.Warn("start a recorded turn", logs.Turn(begun.Turn.TurnID, begun.Turn.Tenant, begun.Turn.InstanceID), zap.Error(err))
		receipt.StartUnknown = true
	}
	return receipt, begun.Position, nil
}
