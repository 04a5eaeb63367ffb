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
		ApprovalId: validText(a.ApprovalID), TurnId: validText(string(a.TurnID)), CallId: validText(string(a.CallID)), Step: int64(a.Step),
		ToolName: validText(a.ToolName), Args: textOf(a.Args), Rule: validText(a.Rule), Decision: validText(string(a.Decision)), By: validText(a.By),
		Message: validText(a.Message), Tenant: validText(a.Tenant), SessionId: validText(string(a.SessionID)), Agent: validText(a.Agent),
		Description: validText(a.Description), AllowedDecisions: each(a.Allowed, kindToProto), ExpiresAt: momentToProto(a.ExpiresAt),
		OnExpiry: validText(string(a.OnExpiry)), Remember: validText(string(a.Remember)), Remembered: a.Remembered,
		DecidedArgs: textOf(a.DecidedArgs), CreatedAt: momentToProto(a.CreatedAt), DecidedAt: momentToProto(a.DecidedAt),
		Kind: validText(string(a.Kind)),
	}
}

func kindToProto(k *agent.DecisionKind) string { return validText(string(*k)) }

// momentToProto is for a time that may be absent.
func momentToProto(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
