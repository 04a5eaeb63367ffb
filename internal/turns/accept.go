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
	DirectChannels []string      // whose turns are direct unless the request or the agent says otherwise
	IdleCheck      time.Duration // how long a follower waits for an event before it checks that the turn is driven; 0: 30 s
}

// Driver runs direct turns in this process.
type Driver interface {
	// Submit records a checked request and runs its turn. If this process cannot run it, refused says why and nothing is recorded. A position above 0
	// means that the turn waits for its session as a workflow.
	Submit(ctx context.Context, req agent.TurnRequest, checked *Checked) (r agent.Receipt, position int, refused agent.Fallback, err error)
}

// Inbox is the one way to a turn: every door submits, follows, decides and cancels through it. It implements [agent.Inbox].
type Inbox struct {
	InboxConfig

	overloadReads *semaphore.Weighted // for requests that come while there is no capacity
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

// submission is a request on its way to becoming a turn.
type submission struct {
	*Inbox

	envelope agent.Envelope
	req      agent.TurnRequest // the envelope's, with the turn's id
	idField  string            // the field that chose the turn's id; empty: the id is new

	existing *agent.TurnState // the recorded turn with this id; nil: none was found
	checked  *Checked
	agent    string // that the turn is bound to

	mode       agent.Mode
	modeSource string         // what chose the mode
	fallback   agent.Fallback // why the turn is not direct, although it was to be
}

// The fields by which a request chooses its turn's id.
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
	// The id begins with the time, so that new rows are neighbours in every index.
	s.req.TurnID = TurnIDOf(&s.req, uuid.Must(uuid.NewV7()).String())
	s.req.IdempotencyKey = "" // the turn's id replaces it
	if s.req.Context.Tenant == agent.DefaultTenant {
		s.req.Context.Tenant = ""
	}
	return s
}

// submit is the way of every request. An error means that nothing was recorded or started.
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

// Bounds of texts that are kept with a turn as they are.
const (
	maxUserBytes    = 1024
	maxChannelBytes = 128
)

// validateText refuses texts that the store cannot keep.
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
	case known: // its workflow was started by hand a moment ago, and will record it
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

// start starts a new turn: in this process if the turn is to be direct and can be, else as a workflow.
func (s *submission) start(ctx context.Context) (agent.Receipt, int, error) {
	if s.mode == agent.ModeDirect {
		receipt, position, refused, err := s.Driver.Submit(ctx, s.req, s.checked)
		if refused != "" || position > 0 {
			s.mode, s.modeSource, s.fallback = agent.ModeDurable, modeByFallback, refused
		}
		if refused == "" {
			return receipt, position, err
		}
	}
	return s.recordAndStart(ctx)
}

// recordAndStart records the turn, and then starts its workflow by its id. So a full queue is answered at once, messages of a session run in the
// order in which they were accepted, and what is recorded runs, whatever becomes of this request. The receipt says so if nobody knows whether the turn
// is recorded or started; an error means that neither is.
func (s *submission) recordAndStart(ctx context.Context) (agent.Receipt, int, error) {
	receipt, req := s.joinedReceipt(), s.req
	if s.existing != nil { // a request that joins may leave the session out
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
	ctx = context.WithoutCancel(ctx) // the turn runs although the caller has left
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
