package gateway

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// approvalToProto omits the hash of the arguments, which only the store needs.
func approvalToProto(a *agent.Approval) *pb.Approval {
	if a == nil {
		return nil
	}
	return &pb.Approval{
		ApprovalId: validText(a.ApprovalID), TurnId: validText(a.TurnID), CallId: validText(a.CallID), Step: int64(a.Step),
		ToolName: validText(a.ToolName), Args: validText(a.Args), Rule: validText(a.Rule), Decision: validText(a.Decision), By: validText(a.By),
		Message: validText(a.Message), Tenant: validText(a.Tenant), SessionId: validText(a.SessionID), Agent: validText(a.Agent),
		Description: validText(a.Description), AllowedDecisions: convertAll(a.Allowed, textToProto), ExpiresAt: optionalTimeToProto(a.ExpiresAt),
		OnExpiry: validText(a.OnExpiry), Remember: validText(a.Remember), Remembered: a.Remembered,
		DecidedArgs: validText(a.DecidedArgs), CreatedAt: optionalTimeToProto(a.CreatedAt), DecidedAt: optionalTimeToProto(a.DecidedAt),
		Kind: validText(a.Kind),
	}
}

// optionalTimeToProto is timeToProto for a time that may be nil.
func optionalTimeToProto(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
