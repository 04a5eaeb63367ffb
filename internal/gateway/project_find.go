package gateway

import (
	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func turnSummaryToProto(t *agent.TurnSummary) *pb.TurnSummary {
	return &pb.TurnSummary{
		TurnId: validText(t.TurnID), SessionId: validText(t.SessionID), Agent: validText(t.Agent),
		UserId: validText(t.UserID), Channel: validText(t.Channel),
		ParentTurnId: validText(t.ParentID), Status: validText(t.Status), StopReason: validText(t.StopReason), ErrorType: validText(t.ErrorType),
		Mode: validText(t.Mode), Model: validText(t.Model), StartedAt: timeToProto(t.StartedAt), FinishedAt: optionalTimeToProto(t.FinishedAt),
		Usage: usageToProto(t.Usage), RerunOf: validText(t.RerunOf), FromStep: int64(t.FromStep), Summary: validText(t.Summary),
	}
}

func sessionSummaryToProto(s *agent.SessionSummary) *pb.SessionSummary {
	return &pb.SessionSummary{
		SessionId: validText(s.SessionID), Summary: validText(s.Summary), Turns: s.Turns, Agent: validText(s.Agent), UserId: validText(s.UserID),
		Channel: validText(s.Channel), Status: validText(s.Status), LastTurnId: validText(s.LastTurnID), ForkedFrom: validText(s.ForkedFrom),
		CreatedAt: timeToProto(s.CreatedAt), LastActiveAt: timeToProto(s.ActiveAt), Title: validText(s.Title),
	}
}

func rerunFromProto(p *pb.RerunTurnRequest) agent.RerunRequest {
	out := agent.RerunRequest{
		FromStep: int(p.GetFromStep()), Agent: p.GetAgent(), Model: p.GetModel(), Prompt: p.GetPrompt(), Draft: p.GetDraft(),
		SessionID: agent.SessionID(p.GetSessionId()),
		TurnID:    agent.TurnID(p.GetTurnId()), IdempotencyKey: p.GetIdempotencyKey(), Mode: agent.Mode(p.GetMode()),
		History: agent.History(p.GetHistory()), OutputSchema: jsonFromProto(p.GetOutputSchema()),
		ClientTools: convertPointers(p.GetClientTools(), clientToolFromProto),
	}
	if c := p.GetContext(); c != nil {
		out.Context = new(contextFromProto(c))
	}
	if l := p.GetLimits(); l != nil {
		out.Limits = new(limitsFromProto(l))
	}
	return out
}

func forkedToProto(f *agent.SessionForked) *pb.ForkSessionResponse {
	return &pb.ForkSessionResponse{
		SessionId: validText(f.SessionID), ForkedFrom: validText(f.ForkedFrom), TurnId: validText(f.TurnID), Turns: int64(f.Turns),
		Messages: int64(f.Messages),
	}
}
