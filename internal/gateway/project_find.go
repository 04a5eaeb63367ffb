package gateway

import (
	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func turnSummaryToProto(t *agent.TurnSummary) *pb.TurnSummary {
	return &pb.TurnSummary{
		TurnId: utf8(string(t.TurnID)), SessionId: utf8(string(t.SessionID)), Agent: utf8(t.Agent), UserId: utf8(t.UserID), Channel: utf8(t.Channel),
		ParentTurnId: utf8(string(t.ParentID)), Status: utf8(t.Status), StopReason: utf8(string(t.StopReason)), ErrorType: utf8(t.ErrorType),
		Mode: utf8(string(t.Mode)), Model: utf8(t.Model), StartedAt: timeToProto(t.StartedAt), FinishedAt: momentToProto(t.FinishedAt),
		Usage: usageToProto(t.Usage), RerunOf: utf8(string(t.RerunOf)), FromStep: int64(t.FromStep), Summary: utf8(t.Summary),
	}
}

func sessionSummaryToProto(s *agent.SessionSummary) *pb.SessionSummary {
	return &pb.SessionSummary{
		SessionId: utf8(string(s.SessionID)), Summary: utf8(s.Summary), Turns: s.Turns, Agent: utf8(s.Agent), UserId: utf8(s.UserID),
		Channel: utf8(s.Channel), Status: utf8(s.Status), LastTurnId: utf8(string(s.LastTurnID)), ForkedFrom: utf8(string(s.ForkedFrom)),
		CreatedAt: timeToProto(s.CreatedAt), LastActiveAt: timeToProto(s.ActiveAt), Title: utf8(s.Title),
	}
}

func rerunFromProto(p *pb.RerunTurnRequest) agent.RerunRequest {
	out := agent.RerunRequest{
		FromStep: int(p.GetFromStep()), Agent: p.GetAgent(), Model: p.GetModel(), Prompt: p.GetPrompt(), Draft: p.GetDraft(),
		SessionID: agent.SessionID(p.GetSessionId()),
		TurnID:    agent.TurnID(p.GetTurnId()), IdempotencyKey: p.GetIdempotencyKey(), Mode: agent.Mode(p.GetMode()),
		History: agent.History(p.GetHistory()), OutputSchema: rawOf(p.GetOutputSchema()), ClientTools: eachOf(p.GetClientTools(), clientToolFromProto),
	}
	if c := p.GetContext(); c != nil {
		context := contextFromProto(c)
		out.Context = &context
	}
	if l := p.GetLimits(); l != nil {
		limits := limitsFromProto(l)
		out.Limits = &limits
	}
	return out
}

func forkedToProto(f *agent.SessionForked) *pb.ForkSessionResponse {
	return &pb.ForkSessionResponse{
		SessionId: utf8(string(f.SessionID)), ForkedFrom: utf8(string(f.ForkedFrom)), TurnId: utf8(string(f.TurnID)), Turns: int64(f.Turns),
		Messages: int64(f.Messages),
	}
}
