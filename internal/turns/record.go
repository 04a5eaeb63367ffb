package turns

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// turnNamespace is the UUID namespace of turn ids that are derived from a tenant and an idempotency key.
var turnNamespace = uuid.MustParse("6f1c2a0e-6a5b-5d0a-9d36-0f6f2b5f7d11") //nolint:gochecknoglobals // never changes

// TurnIDOf returns the id of a request's turn: the id in the request, else one derived from its tenant and idempotency key, else the fallback
// (docs/design/design.md, "Ids").
func TurnIDOf(req *agent.TurnRequest, fallback string) agent.TurnID {
	switch {
	case req.TurnID != "":
		return req.TurnID
	case req.IdempotencyKey != "":
		return agent.TurnID(uuid.NewSHA1(turnNamespace, []byte(req.Context.TenantName()+"\x00"+req.IdempotencyKey)).String())
	default:
		return agent.TurnID(fallback)
	}
}

// sessionOf returns the session of a request's turn. If the request names none, the session is named after the turn.
func sessionOf(req *agent.TurnRequest, id agent.TurnID) agent.SessionID {
	return cmp.Or(req.SessionID, agent.SessionID(id))
}

// Checked is the plan and the binding of a checked request.
type Checked struct {
	Plan    agent.Plan
	Binding agent.Binding
}

// Check validates a request and chooses its agent, plan and model. It records nothing.
func (ts *Turns) Check(ctx context.Context, req *agent.TurnRequest) (*Checked, error) {
	if err := req.Validate(ts.MaxMessageBytes); err != nil {
		return nil, err
	}
	if len(req.OutputSchema) > 0 {
		if err := ts.Schemas.CheckSchema("output_schema", req.OutputSchema); err != nil {
			return nil, err
		}
	}
	route, plan, hash, err := ts.findPlan(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.Rerun != nil && req.Rerun.Prompt != "" {
		if plan, hash, err = ts.Registry.ReplacePrompt(ctx, plan, req.Rerun.Prompt); err != nil {
			return nil, err
		}
	}
	bound := agent.Binding{Agent: plan.Agent, InstanceID: plan.InstanceID, PlanHash: hash, Model: cmp.Or(req.Model, route.Model), Route: &route}
	if _, err := plan.Model(bound.Model); err != nil {
		return nil, err
	}
	if err := ts.checkClientTools(&plan, req.ClientTools); err != nil {
		return nil, err
	}
	return &Checked{Plan: plan, Binding: bound}, nil
}

// findPlan routes a request and returns the current plan of its agent, or the plan of its draft.
func (ts *Turns) findPlan(ctx context.Context, req *agent.TurnRequest) (route agent.RouteDecision, plan agent.Plan, hash string, err error) {
	if d := req.Draft; d != nil {
		plan, err = ts.Registry.Plan(ctx, d.PlanHash)
		return agent.RouteDecision{Agent: d.Agent, Reason: agent.RouteDraft, Revision: d.Revision}, plan, d.PlanHash, err
	}
	route, err = ts.Registry.Choose(ctx, agent.RouteContext{
		InvocationContext: req.Context, Agent: req.Agent, SessionID: sessionOf(req, req.TurnID), Channel: req.Channel,
	})
	if err == nil {
		plan, hash, err = ts.Registry.Resolve(ctx, req.Context.TenantName(), route.Agent)
	}
	return route, plan, hash, err
}

// namesRecordedTurn reports whether a request has a turn id and no message, because the turn was recorded before its workflow began.
func namesRecordedTurn(req *agent.TurnRequest) bool {
	return req.TurnID != "" && req.Message == "" && len(req.Messages) == 0 && req.Rerun == nil
}

// recordOf returns the record of a request's turn and, if the request names a recorded turn, the state of that turn. It checks the request unless
// in.Checked is set. A turn that was accepted before keeps its record, even if the catalog has changed so that the request would now be refused.
func (ts *Turns) recordOf(ctx context.Context, req *agent.TurnRequest, in BeginTurnInput) (agent.TurnRecord, *agent.TurnState, error) {
	if namesRecordedTurn(req) {
		t, err := ts.Store.Turn(ctx, req.TurnID)
		switch {
		case err == nil && t.Record.Tenant == req.Context.TenantName():
			return t.Record, &t, nil
		case err != nil && (in.ByID || agent.CodeOf(err) != agent.CodeNotFound):
			return agent.TurnRecord{}, nil, err
		}
	}
	checked, named := in.Checked, *req
	if checked == nil {
		named.TurnID = TurnIDOf(req, in.RunID) // routing rules may use the session, whose id may be that of the turn
		var refusal error
		if checked, refusal = ts.Check(ctx, &named); refusal != nil {
			t, err := ts.findAcceptedTurn(ctx, &named, refusal)
			return t.Record, nil, err
		}
	}
	return ts.record(ctx, &named, checked, in), nil, nil // not req: the check drops an output schema that is null
}

// findAcceptedTurn returns the recorded turn of a request that would now be refused. If there is none, the error is the refusal.
func (ts *Turns) findAcceptedTurn(ctx context.Context, req *agent.TurnRequest, refusal error) (agent.TurnState, error) {
	if req.TurnID == "" || req.Validate(ts.MaxMessageBytes) != nil {
		return agent.TurnState{}, refusal
	}
	t, err := ts.Store.Turn(ctx, req.TurnID)
	isForeign := t.Record.Tenant != req.Context.TenantName() || (req.SessionID != "" && t.Record.SessionID != req.SessionID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && isForeign {
		return agent.TurnState{}, refusal
	}
	return t, err
}

func (ts *Turns) record(ctx context.Context, req *agent.TurnRequest, checked *Checked, in BeginTurnInput) agent.TurnRecord {
	id := TurnIDOf(req, in.RunID)
	bound := checked.Binding
	bound.Trace = cmp.Or(in.Trace, ts.Observer.Carry(ctx))
	r := agent.TurnRecord{
		TurnID: id, WorkflowID: in.WorkflowID, Tenant: req.Context.TenantName(), SessionID: sessionOf(req, id),
		Binding: bound, Channel: req.Channel, UserID: req.Context.UserID, OnBusy: req.OnBusy, History: req.History,
		Input: req.Input(), Context: req.Context, QueueLimit: ts.QueueLength, OutputSchema: req.OutputSchema, Parent: in.Parent,
		Limits: req.Limits, Mode: agent.ModeDurable, Fallback: in.Fallback, StartByID: in.StartByID, ClientTools: req.ClientTools,
		Approvals: req.Approvals, Rerun: req.Rerun, RefuseWaiting: in.StartByID && req.OnBusy == "",
	}
	if len(r.OutputSchema) == 0 {
		r.OutputSchema = checked.Plan.OutputSchema
	}
	if in.Direct {
		r.Mode, r.LeaseUntil = agent.ModeDirect, time.Now().Add(DirectLease)
	}
	if in.Direct || in.StartByID && ts.StartsHere {
		r.Stream = ts.Log.Claim()
	}
	return r
}
