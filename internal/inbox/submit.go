package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Submit checks a request and starts its turn. A turn that was started before with the same id is joined.
func (b *Inbox) Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error) {
	receipt, _, err := b.submit(ctx, e)
	return receipt, err
}

// MessageFrom submits an envelope to the session of a turn, to the same agent unless the request names one.
func (b *Inbox) MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, int, error) {
	t, err := b.Store.Turn(ctx, id)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	e.Request.SessionID, e.Request.Context.Tenant = t.Record.SessionID, t.Record.Tenant
	e.Request.Agent = cmp.Or(e.Request.Agent, t.Record.Agent)
	return b.submit(ctx, e)
}

// submission is a request on its way to being a turn.
type submission struct {
	*Inbox

	caller    agent.Principal
	door      string // channel of the envelope; that of the request is what the request says
	sender    string
	requestID string
	remote    string
	req       agent.TurnRequest
	session   agent.SessionID
	chosen    string // the field by which the caller chose the turn's id; empty: it is a new one

	checked *turns.Checked // of a request that may begin a turn
	agent   string         // that it is bound to
	mode    agent.Mode     // how its turn is to be driven, and who says so
	modeBy  string

	fallback agent.Fallback // why it is not direct, although it was to be
}

// submit is the way of every request: what is refused is refused before anything is recorded, and a turn that exists is joined.
func (b *Inbox) submit(ctx context.Context, e agent.Envelope) (agent.Receipt, int, error) {
	s := b.submission(&e)
	if err := s.validateText(); err != nil {
		return agent.Receipt{}, 0, err
	}
	leave, err := b.enterCapacity(ctx)
	if err != nil {
		return s.joinInOverload(ctx, err)
	}
	receipt, position, err := s.accept(ctx)
	if err != nil || receipt.Joined || receipt.StartUnknown || position > 0 || s.mode == agent.ModeDirect {
		leave(err == nil && s.mode == agent.ModeDirect && !receipt.Joined && !receipt.StartUnknown) // Submit of a driver returns when the turn has begun
	} else {
		go b.awaitBegin(context.WithoutCancel(ctx), receipt.TurnID, leave)
	}
	return receipt, position, err
}

// accept checks a request, records its turn and starts it.
func (s *submission) accept(ctx context.Context) (agent.Receipt, int, error) {
	var err error
	if s.checked, err = s.Turns.Check(ctx, &s.req); err != nil {
		if again, known := s.findAcceptedTurn(ctx); known {
			s.audit(again, nil)
			return again, 0, nil
		}
		return agent.Receipt{}, 0, err
	}
	s.agent = s.checked.Binding.Agent
	s.chooseMode(s.checked.Plan.Mode)
	receipt, position, err := s.admitAndStart(ctx)
	s.audit(receipt, err)
	return receipt, position, err
}

// Bounds of texts that are kept with a turn as they are.
const (
	maxUser    = 1024
	maxChannel = 128
)

// validateText refuses texts that the store cannot keep.
func (s *submission) validateText() error {
	for _, f := range []struct {
		field, text string
		most        int
	}{{"context.user_id", s.req.Context.UserID, maxUser}, {"channel", s.req.Channel, maxChannel}} {
		if len(f.text) > f.most || strings.ContainsFunc(f.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return agent.Invalid(f.field, "want at most %d bytes on one line", f.most)
		}
	}
	return nil
}

func (b *Inbox) submission(e *agent.Envelope) *submission {
	s := &submission{
		Inbox: b, caller: e.Principal, door: cmp.Or(e.Channel, e.Request.Channel), sender: e.Sender, requestID: e.RequestID, remote: e.Remote, req: e.Request,
	}
	switch {
	case s.req.TurnID != "":
		s.chosen = fieldTurn
	case s.req.IdempotencyKey != "":
		s.chosen = fieldKey
	}
	s.req.Channel = cmp.Or(s.req.Channel, e.Channel)
	s.req.TurnID = turns.TurnIDOf(&s.req, uuid.NewString())
	s.session = cmp.Or(s.req.SessionID, agent.SessionID(s.req.TurnID))
	s.req.IdempotencyKey = "" // the turn's id says it
	if s.req.Context.Tenant == agent.DefaultTenant {
		s.req.Context.Tenant = ""
	}
	return s
}

// fieldTurn is the field by which a caller chooses a turn, besides fieldKey.
const fieldTurn = "turn_id"

// admitAndStart authorises and admits a checked request, and starts its turn.
func (s *submission) admitAndStart(ctx context.Context) (agent.Receipt, int, error) {
	if err := s.authorise(s.agent); err != nil {
		return agent.Receipt{}, 0, err
	}
	s.limitTools()
	var was existingTurn
	if s.chosen != "" {
		var err error
		if was, err = s.claimTurnID(ctx); err != nil {
			return agent.Receipt{}, 0, err
		}
	}
	if was.mode == agent.ModeDirect {
		return s.joinedReceipt(was.session), 0, nil
	}
	if s.req.SessionID != "" && s.req.OnBusy == "" {
		if err := s.refuseWhileWaiting(ctx); err != nil {
			return agent.Receipt{}, 0, err
		}
	}
	if was.begun {
		return s.start(ctx, was)
	}
	leave, err := s.takePlace(ctx)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	receipt, position, err := s.start(ctx, was)
	if isFinal(err) { // its session is busy, or has too many waiting
		leave(ctx)
	}
	return receipt, position, err
}

// start records a turn before it starts it by its id: a full queue or a rejection is answered at once, messages of a session run in the
// order in which they were accepted, and what is recorded runs, whatever becomes of this request. Where nobody knows whether the turn
// is recorded, or started, the receipt says so; an error means that nothing was.
func (s *submission) start(ctx context.Context, was existingTurn) (agent.Receipt, int, error) {
	if s.mode == agent.ModeDirect && s.Direct != nil && !was.begun {
		receipt, position, refused, err := s.Direct.Submit(ctx, s.req, s.checked)
		if refused != "" || position > 0 { // this process has no place for it, or it waits for its session as a workflow
			s.mode, s.modeBy, s.fallback = agent.ModeDurable, modeFallback, refused
		}
		if refused == "" || err != nil {
			return receipt, position, err
		}
	}
	receipt, position, agentName, instance := s.joinedReceipt(was.session), 0, "", ""
	if !was.begun || was.mode != "" { // else its workflow was started by hand, and records it
		begun, err := s.record(ctx)
		switch {
		case errors.Is(err, agent.ErrOutcomeUnknown):
			s.Logger.Warn("record a turn", logs.Turn(s.req.TurnID, s.req.Context.TenantName(), ""), zap.Error(err))
			receipt.Joined, receipt.StartUnknown = false, true
			return receipt, 0, nil
		case err != nil:
			return agent.Receipt{}, 0, err
		case begun.Verdict == turns.VerdictDuplicate:
			return receipt, 0, nil
		}
		receipt.Joined, position, agentName, instance = !begun.New, begun.Position, begun.Turn.Agent, begun.Turn.InstanceID
	}
	ctx = context.WithoutCancel(ctx) // it is recorded, and runs although the caller has left
	err := s.Runs.start(ctx, requestByID(s.req.TurnID, receipt.SessionID, s.req.Context.Tenant), agentName, nil)
	switch {
	case err == nil:
	case refusedForGood(err):
		return agent.Receipt{}, 0, errors.Join(err, s.Turns.Terminate(ctx, s.req.TurnID))
	default:
		s.Logger.Warn("start a recorded turn", logs.Turn(s.req.TurnID, s.req.Context.TenantName(), instance), zap.Error(err))
		receipt.StartUnknown = true
	}
	return receipt, position, nil
}

// recordPatience bounds the second attempt to record a turn.
const recordPatience = 5 * time.Second

// record records the turn. When nobody knows whether it did, it tries again: the same id is recorded once.
func (s *submission) record(ctx context.Context) (turns.BeginTurnResult, error) {
	in := turns.BeginTurnInput{WorkflowID: s.req.TurnID.WorkflowID(), StartByID: true, Checked: s.checked, Fallback: s.fallback}
	begun, err := s.Turns.Begin(ctx, s.req, in)
	if !errors.Is(err, agent.ErrOutcomeUnknown) {
		return begun, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	begun, again := s.Turns.Begin(ctx, s.req, in)
	if again == nil || isFinal(again) {
		return begun, again
	}
	return begun, errors.Join(err, again)
}

// requestByID is the request for a turn that is recorded: the id says the rest.
func requestByID(id agent.TurnID, session agent.SessionID, tenant string) agent.TurnRequest {
	return agent.TurnRequest{TurnID: id, SessionID: session, Context: agent.InvocationContext{Tenant: tenant}}
}

// refusedForGood reports whether Temporal would refuse to start the turn another time too.
func refusedForGood(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied:
		return true
	default:
		return false
	}
}

// joinedReceipt is the receipt of a turn that exists; session is that of its record, empty if it has none.
func (s *submission) joinedReceipt(session agent.SessionID) agent.Receipt {
	return agent.Receipt{TurnID: s.req.TurnID, SessionID: cmp.Or(session, s.session), StreamID: string(s.req.TurnID), Joined: true}
}

// findAcceptedTurn returns the turn that a request names, for a request that is refused now: it may have been accepted before the catalog
// changed, and joins its turn.
func (s *submission) findAcceptedTurn(ctx context.Context) (agent.Receipt, bool) {
	if s.chosen == "" || s.req.Validate(0) != nil {
		return agent.Receipt{}, false
	}
	t, err := s.Store.Turn(ctx, s.req.TurnID)
	if err != nil || s.checkSameTurn(&t) != nil {
		return agent.Receipt{}, false
	}
	s.agent, s.mode, s.modeBy = t.Record.Agent, cmp.Or(t.Record.Mode, agent.ModeDurable), ""
	return s.joinedReceipt(t.Record.SessionID), true
}

// existingTurn is the turn that a request names, as far as there is one.
type existingTurn struct {
	begun   bool       // it was accepted before
	mode    agent.Mode // how it is driven; empty: it is not recorded
	session agent.SessionID
}

// claimTurnID returns the turn that a request names, if it exists. It refuses an id of another tenant, session or request, in words that say
// nothing of theirs, and one whose turn was deleted: Temporal would not start it again. A direct turn whose driver is gone goes on as a workflow.
func (s *submission) claimTurnID(ctx context.Context) (existingTurn, error) {
	t, err := s.Store.Turn(ctx, s.req.TurnID)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		closed, missing, err := s.Runs.look(ctx, s.req.TurnID.WorkflowID())
		if err == nil && closed && !missing {
			err = agent.FieldErrorf(agent.CodeConflict, s.chosen, "was used by a turn that is not kept any more")
		}
		if err == nil && missing {
			err = s.rejectReservedID()
		}
		if !closed { // it was started a moment ago
			s.mode, s.modeBy = agent.ModeDurable, ""
		}
		return existingTurn{begun: !closed}, err
	case err != nil:
		return existingTurn{}, err
	}
	if err := s.checkSameTurn(&t); err != nil {
		return existingTurn{}, err
	}
	was := existingTurn{begun: true, mode: cmp.Or(t.Record.Mode, agent.ModeDurable), session: t.Record.SessionID}
	s.mode, s.modeBy = was.mode, ""
	if was.mode == agent.ModeDirect && t.Output == nil {
		_, err = s.endOrphan(ctx, s.req.TurnID, &t)
	}
	return was, err
}

// rejectReservedID refuses a new turn under an id of the form that idempotency keys have, where tenants are kept apart: whoever guesses another
// tenant's key could take its id.
func (s *submission) rejectReservedID() error {
	if s.chosen != fieldTurn || s.caller.Trusted() || s.caller.Tenant == agent.AnyTenant {
		return nil
	}
	if id, err := uuid.Parse(string(s.req.TurnID)); err == nil && id.Version() == 5 && id.String() == string(s.req.TurnID) {
		return agent.Invalid(fieldTurn, "is a UUID of version 5, as idempotency keys make them, and there is no such turn: choose another, or give idempotency_key")
	}
	return nil
}

// checkSameTurn refuses a turn that is not this request's: of another tenant or session, of an agent that the caller may not ask, or, where an
// idempotency key names it, of another user or with other messages. A request that gives the turn id joins the turn whatever its messages are.
func (s *submission) checkSameTurn(t *agent.TurnState) error {
	r := &t.Record
	if r.Tenant != s.req.Context.TenantName() || (s.req.SessionID != "" && r.SessionID != s.req.SessionID) ||
		!s.caller.May(agent.ActionTurnsRun, r.Agent) {
		return agent.FieldErrorf(agent.CodeConflict, s.chosen, "is taken")
	}
	if s.chosen != fieldKey {
		return nil
	}
	if (s.req.Agent != "" && s.req.Agent != r.Agent) || s.req.Context.UserID != r.UserID || !sameMessages(r.Input, s.req.Input()) {
		return agent.FieldErrorf(agent.CodeConflict, fieldKey, "was used by another request")
	}
	return nil
}

func sameMessages(a, b []agent.Message) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && bytes.Equal(one, other)
}

// refuseWhileWaiting refuses a message to a session that waits for a person, unless the request says what to do then. A repeated request for the
// turn that waits joins it.
func (s *submission) refuseWhileWaiting(ctx context.Context) error {
	waiting, err := s.Store.Waiting(ctx, s.req.Context.TenantName(), s.req.SessionID)
	if err != nil || waiting == "" || waiting == s.req.TurnID {
		return err
	}
	return agent.Errorf(agent.CodeConflict, "", "awaiting_approval: turn %s waits for a person or a client-side tool; say on_busy queue or interrupt", waiting)
}
