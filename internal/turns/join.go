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

// joinedReceipt returns the receipt for a request that joins an existing turn.
func (s *submission) joinedReceipt() agent.Receipt {
	session := sessionOf(&s.req, s.req.TurnID)
	if s.existing != nil {
		session = cmp.Or(s.existing.Record.SessionID, session)
	}
	return agent.Receipt{TurnID: s.req.TurnID, SessionID: session, StreamID: string(s.req.TurnID), Joined: true}
}

// joinOrRefuse joins the turn that a refused request names, because the turn may have been accepted before the catalog changed. If there is no such
// turn, it returns the refusal.
func (s *submission) joinOrRefuse(ctx context.Context, refusal error) (agent.Receipt, int, error) {
	if s.idField == "" || s.req.Validate(0) != nil || s.findExisting(ctx) != nil || s.existing == nil {
		return agent.Receipt{}, 0, refusal
	}
	s.agent = s.existing.Record.Agent
	receipt := s.joinedReceipt()
	s.audit(receipt, nil)
	return receipt, 0, nil
}

// findExisting sets s.existing to the recorded turn that the request names, if there is one. It returns an error if that is the turn of another request.
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
// revealing anything about that turn, and the id of a deleted turn. It asks Temporal before anything is recorded, because a recorded turn cannot be
// removed if Temporal then refuses to start it. It continues a direct turn whose process is gone as a workflow.
func (s *submission) claimTurnID(ctx context.Context) (exists bool, err error) {
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

// rejectReservedID refuses a new turn whose id is a UUID of version 5. Those are made from a tenant and an idempotency key, so a caller could occupy the
// id of another tenant's key.
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

// checkSameTurn refuses a turn of another tenant or session, or of an agent that the caller may not run. If the request names the turn by an idempotency
// key, the turn must also have the user and messages of the request, and the model, limits and output schema if the request has them.
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

// checkSameRequest returns an error if a turn with the request's idempotency key belongs to another request. It does not compare limits if limits is nil.
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

// checkSamePlan returns an error if the request names a turn by an idempotency key and that turn has another draft or, for a rerun, another system prompt.
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
	textA, err := json.Marshal(a)
	if err != nil {
		return false
	}
	textB, err := json.Marshal(b)
	return err == nil && bytes.Equal(textA, textB)
}
