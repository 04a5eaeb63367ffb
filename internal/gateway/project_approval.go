package gateway

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// approvalToProto leaves out the hash of the arguments, which is the store's.
func approvalToProto(a *agent.Approval) *pb.Approval {
	if a == nil {
		return nil
	}
	return &pb.Approval{
		ApprovalId: utf8(a.ApprovalID), TurnId: utf8(string(a.TurnID)), CallId: utf8(string(a.CallID)), Step: int64(a.Step),
		ToolName: utf8(a.ToolName), Args: textOf(a.Args), Rule: utf8(a.Rule), Decision: utf8(string(a.Decision)), By: utf8(a.By),
		Message: utf8(a.Message), Tenant: utf8(a.Tenant), SessionId: utf8(string(a.SessionID)), Agent: utf8(a.Agent),
		Description: utf8(a.Description), AllowedDecisions: each(a.Allowed, kindToProto), ExpiresAt: momentToProto(a.ExpiresAt),
		OnExpiry: utf8(string(a.OnExpiry)), Remember: utf8(string(a.Remember)), Remembered: a.Remembered,
		DecidedArgs: textOf(a.DecidedArgs), CreatedAt: momentToProto(a.CreatedAt), DecidedAt: momentToProto(a.DecidedAt),
		Kind: utf8(string(a.Kind)),
	}
}

func approvalFromProto(p *pb.Approval) *agent.Approval {
	if p == nil {
		return nil
	}
	return &agent.Approval{
		ApprovalID: p.GetApprovalId(), TurnID: agent.TurnID(p.GetTurnId()), CallID: agent.CallID(p.GetCallId()),
		Step: int(p.GetStep()), ToolName: p.GetToolName(), Args: rawOf(p.GetArgs()), Rule: p.GetRule(),
		Decision: agent.DecisionKind(p.GetDecision()), By: p.GetBy(), Message: p.GetMessage(), Tenant: p.GetTenant(),
		SessionID: agent.SessionID(p.GetSessionId()), Agent: p.GetAgent(), Description: p.GetDescription(),
		Allowed: each(p.GetAllowedDecisions(), kindFromProto), ExpiresAt: momentFromProto(p.GetExpiresAt()),
		OnExpiry: agent.Expiry(p.GetOnExpiry()), Remember: agent.RememberScope(p.GetRemember()), Remembered: p.GetRemembered(),
		DecidedArgs: rawOf(p.GetDecidedArgs()), CreatedAt: momentFromProto(p.GetCreatedAt()), DecidedAt: momentFromProto(p.GetDecidedAt()),
		Kind: agent.WaitKind(p.GetKind()),
	}
}

func kindToProto(k *agent.DecisionKind) string { return utf8(string(*k)) }

func kindFromProto(p *string) agent.DecisionKind { return agent.DecisionKind(*p) }

// momentToProto is for a time that may be absent.
func momentToProto(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

func momentFromProto(p *timestamppb.Timestamp) *time.Time {
	if p == nil {
		return nil
	}
	t := p.AsTime()
	return &t
}
