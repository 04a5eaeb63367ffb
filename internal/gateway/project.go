package gateway

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// The files project*.go convert between the types of package agent and proto. Tests compare every field of both sides. In proto an empty list is
// absent, JSON is text, and invalid UTF-8 is replaced.

// validText returns text in which U+FFFD replaces invalid UTF-8, which proto refuses.
func validText[T ~string | ~[]byte](text T) string {
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// convertAll returns the results of f for the entries of a list, nil for an empty list.
func convertAll[A, B any](in []A, f func(*A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}

// convertPointers is convertAll for the lists of proto, which hold pointers.
func convertPointers[A, B any](in []*A, f func(*A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = f(in[i])
	}
	return out
}

// documentOf returns a JSON document as text, empty for null, which is how the vocabulary says that there is none.
func documentOf(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return validText(raw)
}

func jsonFromProto(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromProto(p *timestamppb.Timestamp) time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.AsTime()
}

// checkTime returns an error if a time is out of range.
func checkTime(field string, p *timestamppb.Timestamp) error {
	if p != nil && !p.IsValid() {
		return agent.Invalid(field, "want a time of the years 1 to 9999")
	}
	return nil
}

func structFromProto(s *structpb.Struct) map[string]any {
	if s == nil {
		return nil
	}
	return s.AsMap()
}

func int64ToProto(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

func intFromProto(n *int64) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func requestFromProto(p *pb.TurnRequest) agent.TurnRequest {
	body := agent.TurnBody{Draft: p.GetDraft(), TurnRequest: agent.TurnRequest{
		TurnID: agent.TurnID(p.GetTurnId()), Agent: p.GetAgent(), SessionID: agent.SessionID(p.GetSessionId()),
		Message: p.GetMessage(), Messages: convertPointers(p.GetMessages(), messageFromProto),
		Context: contextFromProto(p.GetContext()),
		History: agent.History(p.GetHistory()), Mode: agent.Mode(p.GetMode()), Model: p.GetModel(), Channel: p.GetChannel(),
		IdempotencyKey: p.GetIdempotencyKey(), OutputSchema: jsonFromProto(p.GetOutputSchema()), OnBusy: agent.OnBusy(p.GetOnBusy()),
		ClientTools: convertPointers(p.GetClientTools(), clientToolFromProto),
	}}
	out := body.Request()
	if l := p.GetLimits(); l != nil {
		out.Limits = new(limitsFromProto(l))
	}
	return out
}

func clientToolFromProto(p *pb.ClientTool) agent.ClientTool {
	return agent.ClientTool{
		Name: p.GetName(), Description: p.GetDescription(), Parameters: jsonFromProto(p.GetParameters()), Strict: p.GetStrict(), ExpiresSec: p.GetExpiresSec(),
	}
}

func contextFromProto(p *pb.InvocationContext) agent.InvocationContext {
	return agent.InvocationContext{
		Tenant: p.GetTenant(), UserID: p.GetUserId(), UserRole: p.GetUserRole(), UIPage: p.GetUiPage(),
		Flags: structFromProto(p.GetFlags()), Metadata: structFromProto(p.GetMetadata()),
	}
}

func limitsToProto(l agent.Limits) *pb.Limits {
	out := &pb.Limits{
		ModelCalls: int64(l.ModelCalls), ToolCalls: int64(l.ToolCalls), Tokens: l.Tokens, CostUsd: l.CostUSD,
		WallTimeSec: l.WallTimeSec, Iterations: int64(l.Iterations),
	}
	if l.Tools != nil { // an empty list means no tool, nil means all tools
		out.Tools = &pb.ToolNames{Names: convertAll(l.Tools, textToProto)}
	}
	return out
}

func limitsFromProto(p *pb.Limits) agent.Limits {
	out := agent.Limits{
		ModelCalls: int(p.GetModelCalls()), ToolCalls: int(p.GetToolCalls()), Tokens: p.GetTokens(), CostUSD: p.GetCostUsd(),
		WallTimeSec: p.GetWallTimeSec(), Iterations: int(p.GetIterations()),
	}
	if t := p.GetTools(); t != nil {
		out.Tools = append([]string{}, t.GetNames()...)
	}
	return out
}

func messageFromProto(p *pb.Message) agent.Message {
	return agent.Message{Role: agent.Role(p.GetRole()), Blocks: convertPointers(p.GetBlocks(), blockFromProto)}
}

func blockToProto(b *agent.Block) *pb.Block {
	return &pb.Block{
		Type: validText(b.Type), Id: validText(b.ID), Text: validText(b.Text), Annotations: convertAll(b.Annotations, annotationToProto),
		Reasoning: validText(b.Reasoning), Signature: validText(b.Signature), Url: validText(b.URL), Base64: validText(b.Base64),
		FileId: validText(b.FileID), MimeType: validText(b.MIMEType), Name: validText(b.Name), Args: validText(b.Args),
		ToolCallId: validText(b.ToolCallID), Status: validText(b.Status), Output: validText(b.Output), Ref: validText(b.Ref),
		Error: validText(b.Error), Value: validText(b.Value), Extras: validText(b.Extras),
	}
}

func blockFromProto(p *pb.Block) agent.Block {
	return agent.Block{
		Type: agent.BlockType(p.GetType()), ID: p.GetId(), Text: p.GetText(),
		Annotations: convertPointers(p.GetAnnotations(), annotationFromProto), Reasoning: p.GetReasoning(), Signature: p.GetSignature(),
		URL: p.GetUrl(), Base64: p.GetBase64(), FileID: p.GetFileId(), MIMEType: p.GetMimeType(), Name: p.GetName(),
		Args: jsonFromProto(p.GetArgs()), ToolCallID: agent.CallID(p.GetToolCallId()), Status: p.GetStatus(), Output: jsonFromProto(p.GetOutput()),
		Ref: p.GetRef(), Error: p.GetError(), Value: jsonFromProto(p.GetValue()), Extras: jsonFromProto(p.GetExtras()),
	}
}

func annotationToProto(a *agent.Annotation) *pb.Annotation {
	return &pb.Annotation{
		Type: validText(a.Type), Id: validText(a.ID), Url: validText(a.URL), Title: validText(a.Title), StartIndex: int64ToProto(a.StartIndex),
		EndIndex: int64ToProto(a.EndIndex), CitedText: validText(a.CitedText), Extras: validText(a.Extras),
	}
}

func annotationFromProto(p *pb.Annotation) agent.Annotation {
	return agent.Annotation{
		Type: p.GetType(), ID: p.GetId(), URL: p.GetUrl(), Title: p.GetTitle(), StartIndex: intFromProto(p.StartIndex),
		EndIndex: intFromProto(p.EndIndex), CitedText: p.GetCitedText(), Extras: jsonFromProto(p.GetExtras()),
	}
}

func outputToProto(o *agent.AgentStepOutput) *pb.AgentStepOutput {
	if o == nil {
		return nil
	}
	return &pb.AgentStepOutput{
		TurnId: validText(o.TurnID), SessionId: validText(o.SessionID), Agent: validText(o.Agent),
		AgentInstanceId: validText(o.AgentInstanceID), Status: validText(o.Status), Output: validText(o.Output),
		Blocks: convertAll(o.Blocks, blockToProto), Structured: documentOf(o.Structured), ResultRef: validText(o.ResultRef),
		ResultPreview: documentOf(o.ResultPreview), ToolCalls: convertAll(o.ToolCalls, noteToProto), Usage: usageToProto(&o.Usage),
		StopReason: validText(o.StopReason), Error: failureToProto(o.Error), StreamId: validText(o.StreamID),
		ExecutionTimeMs: o.ExecutionTimeMS, Model: validText(o.Model),
	}
}

func noteToProto(n *agent.ToolCallNote) *pb.ToolCallNote {
	return &pb.ToolCallNote{
		Id: validText(n.ID), Tool: validText(n.Tool), Status: validText(n.Status), Ref: validText(n.Ref), CacheHit: n.CacheHit,
		Input: validText(n.Input), Output: validText(n.Output), Truncated: n.Truncated,
	}
}

func usageToProto(u *agent.Usage) *pb.Usage {
	if u == nil {
		return nil
	}
	return &pb.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens,
		ReasoningTokens: u.ReasoningTokens, CostUsd: u.CostUSD, Estimated: u.Estimated, Unpriced: u.Unpriced,
	}
}

func failureToProto(f *agent.Failure) *pb.Failure {
	if f == nil {
		return nil
	}
	return &pb.Failure{
		Type: validText(f.Type), Message: validText(f.Message), Retryable: f.Retryable, Tool: validText(f.Tool), Step: validText(f.Step),
		Field: validText(f.Field), Faults: convertAll(f.Faults, faultToProto),
	}
}

func faultToProto(f *agent.Fault) *pb.Fault {
	return &pb.Fault{
		File: validText(f.File), Line: int64(f.Line), Column: int64(f.Column), Document: validText(f.Document), Path: validText(f.Path),
		Message: validText(f.Message),
	}
}

func eventToProto(e *agent.Event) *pb.Event {
	m := &e.Meta
	return &pb.Event{
		Meta: &pb.EventMeta{
			StreamId: validText(m.StreamID), EventIndex: m.EventIndex, TurnId: validText(m.TurnID), Attempt: m.Attempt,
			Producer: validText(m.Producer), AgentInstanceId: validText(m.AgentInstanceID), Time: timeToProto(m.Time),
		},
		Type: validText(e.Type), Status: validText(e.Status), Reason: validText(e.Reason), Result: outputToProto(e.Result),
		Text: validText(e.Text), ContentBlocks: convertAll(e.ContentBlocks, blockToProto), ToolCallId: validText(e.ToolCallID),
		ToolName: validText(e.ToolName), Input: validText(e.Input), Output: validText(e.Output), Ref: validText(e.Ref), Failed: e.Failed,
		Approval: approvalToProto(e.Approval), Route: validText(e.Route), Usage: usageToProto(e.Usage), Model: validText(e.Model),
		Producer: validText(e.Producer), FromIndex: e.FromIndex, Error: failureToProto(e.Error),
		SourceNodeName: validText(e.SourceNodeName), IsFromToolkit: e.IsFromToolkit,
	}
}

func viewToProto(v *TurnView) *pb.GetTurnResponse {
	return &pb.GetTurnResponse{
		TurnId: validText(v.TurnID), SessionId: validText(v.SessionID), StreamId: validText(v.StreamID), Tenant: validText(v.Tenant),
		Agent: validText(v.Agent), State: validText(v.State), StartedAt: timeToProto(v.StartedAt), LastEventIndex: v.Tail.LastIndex,
		Pending: convertAll(v.Pending, approvalToProto), Result: outputToProto(v.Output), Mode: validText(v.Mode), Fallback: validText(v.Fallback),
		RerunOf: validText(v.RerunOf), FromStep: int64(v.FromStep), Draft: v.Draft,
	}
}
