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

func kindToProto(k *agent.DecisionKind) string { return utf8(string(*k)) }

// momentToProto is for a time that may be absent.
func momentToProto(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
