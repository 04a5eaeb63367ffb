package turns

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// joinedReceipt is the receipt of a turn that exists.
func (s *submission) joinedReceipt() agent.Receipt {
	session := sessionOf(&s.req, s.req.TurnID)
	if s.existing != nil {
		session = cmp.Or(s.existing.Record.SessionID, session)
	}
	return agent.Receipt{TurnID: s.req.TurnID, SessionID: session, StreamID: string(s.req.TurnID), Joined: true}
}

// joinOrRefuse joins the turn that a refused request names: the turn may have been accepted before the catalog changed. It returns the refusal if
// there is no such turn.
func (s *submission) joinOrRefuse(ctx context.Context, refusal error) (agent.Receipt, int, error) {
	if s.idField == "" || s.req.Validate(0) != nil || s.findExisting(ctx) != nil || s.existing == nil {
		return agent.Receipt{}, 0, refusal
	}
	s.agent = s.existing.Record.Agent
	receipt := s.joinedReceipt()
	s.audit(receipt, nil)
	return receipt, 0, nil
}

// findExisting reads the recorded turn that the request names, and refuses one of another request.
func (s *submission) findExisting(ctx context.Context) error {
	t, err := s.Turns.Store.Turn(ctx, s.req.TurnID)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	if err := cmp.Or(s.checkSameTurn(&t), s.checkSamePlan(ctx, &t)); err != nil {
		return err
	}
	s.existing, s.mode, s.modeSource = &t, cmp.Or(t.Record.Mode, agent.ModeDurable), ""
	return nil
}

// claimTurnID reports whether the turn that the request names exists. It refuses the id of another tenant's, session's or request's turn, without
// revealing anything about that turn, and the id of a deleted turn. It asks Temporal before anything is recorded, because a recorded turn that
// Temporal refuses to start could not be taken back. A direct turn whose driver is gone goes on as a workflow.
func (s *submission) claimTurnID(ctx context.Context) (known bool, err error) {
	if s.idField == "" {
		return false, nil
	}
	if err := s.findExisting(ctx); err != nil {
		return false, err
	}
	if s.existing != nil {
		if s.mode == agent.ModeDirect && s.existing.Output == nil {
			_, err = s.Turns.EndIfOrphaned(ctx, s.existing)
		}
		return true, err
	}
	workflow, err := s.Turns.Runs.Look(ctx, s.req.TurnID.WorkflowID())
	switch {
	case err != nil:
		return false, err
	case workflow.Running:
		s.mode, s.modeSource = agent.ModeDurable, ""
		return true, nil
	case workflow.Exists:
		return false, agent.FieldErrorf(agent.CodeConflict, s.idField, "was used by a turn that is not kept any more")
	}
	return false, s.rejectReservedID()
}

// rejectReservedID refuses a new turn under an id of the form that idempotency keys have, where tenants are kept apart: whoever guesses another
// tenant's key could take its id.
func (s *submission) rejectReservedID() error {
	caller := &s.envelope.Principal
	if s.idField != fieldTurnID || caller.Trusted() || caller.Tenant == agent.AnyTenant {
		return nil
	}
	if id, err := uuid.Parse(string(s.req.TurnID)); err == nil && id.Version() == 5 && id.String() == string(s.req.TurnID) {
		return agent.Invalid(fieldTurnID,
			"is a UUID of version 5, as idempotency keys make them, and there is no such turn: choose another, or give idempotency_key")
	}
	return nil
}

// checkSameTurn refuses a turn of another tenant or session, and one whose agent the caller may not ask. A turn that is named by an idempotency
// key must also have the same user and messages, and the model, limits and output schema that the request names; one that is named by its id may
// have others.
func (s *submission) checkSameTurn(t *agent.TurnState) error {
	r := &t.Record
	if r.Tenant != s.req.Context.TenantName() || (s.req.SessionID != "" && r.SessionID != s.req.SessionID) ||
		!s.envelope.Principal.May(agent.ActionTurnsRun, r.Agent) {
		return agent.FieldErrorf(agent.CodeConflict, s.idField, "is taken")
	}
	if s.idField != fieldKey {
		return nil
	}
	var limits *agent.Limits
	if s.envelope.Request.Limits != nil {
		limits = s.limits()
	}
	return checkSameRequest(&s.req, limits, t)
}

// checkSameRequest refuses a request whose idempotency key stands for the turn of another one. Without limits it takes any.
func checkSameRequest(req *agent.TurnRequest, limits *agent.Limits, t *agent.TurnState) error {
	r := &t.Record
	isDraft := r.Route != nil && r.Route.Reason == agent.RouteDraft
	if (req.Agent != "" && req.Agent != r.Agent) || (req.Model != "" && req.Model != r.Model) || req.Context.UserID != r.UserID ||
		!sameMessages(r.Input, req.Input()) || t.RerunOf != rerunOf(req) || isDraft != (req.Draft != nil) {
		return errOtherRequest()
	}
	if limits != nil && !reflect.DeepEqual(*cmp.Or(r.Limits, new(agent.Limits)), *limits) {
		return agent.FieldErrorf(agent.CodeConflict, fieldKey, "was used by a request with other limits")
	}
	if schema := req.OutputSchema; len(schema) > 0 && !bytes.Equal(canonicalJSON(schema), canonicalJSON(r.OutputSchema)) {
		return agent.FieldErrorf(agent.CodeConflict, fieldKey, "was used by a request with another output_schema")
	}
	return nil
}

func errOtherRequest() error {
	return agent.FieldErrorf(agent.CodeConflict, fieldKey, "was used by another request")
}

// checkSamePlan refuses a turn that is named by an idempotency key and has another draft or, as a rerun, another system prompt than the request.
func (s *submission) checkSamePlan(ctx context.Context, t *agent.TurnState) error {
	hasPrompt := s.req.Rerun != nil && s.req.Rerun.Prompt != ""
	switch {
	case s.idField != fieldKey:
		return nil
	case !hasPrompt && s.req.Draft != nil && s.req.Draft.PlanHash != t.Record.PlanHash:
		return errOtherRequest()
	case !hasPrompt:
		return nil
	}
	plan, err := s.Turns.Registry.Plan(ctx, t.Record.PlanHash)
	if err == nil && plan.System != s.req.Rerun.Prompt {
		err = errOtherRequest()
	}
	return err
}

func sameMessages(a, b []agent.Message) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && bytes.Equal(one, other)
}
