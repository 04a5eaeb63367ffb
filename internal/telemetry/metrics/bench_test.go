package metrics_test

import (
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

func BenchmarkObserver(b *testing.B) {
	m, _ := open(b, 0)
	ctx, turn := b.Context(), observed()
	b.Run("Work", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, done := m.Work(ctx, agent.Work{Name: "CallModel", Turn: turn})
			done(nil)
		}
	})
	b.Run("Request", func(b *testing.B) {
		b.ReportAllocs()
		o := agent.ModelObservation{
			Turn: turn, Model: agent.PlanModel{Profile: "small", Provider: "openai"}, Epoch: 1, Purpose: agent.PurposeReply,
		}
		out := agent.ModelOutcome{Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.1}, FirstDelta: time.Second, FirstOfTurn: true}
		for b.Loop() {
			_, done := m.Request(ctx, o)
			done(out)
		}
	})
	b.Run("Tool", func(b *testing.B) {
		b.ReportAllocs()
		o, out := agent.ToolObservation{Turn: turn, Name: "lookup"}, agent.ToolOutcome{Result: &agent.ToolResult{}}
		for b.Loop() {
			_, done := m.Tool(ctx, o)
			done(out)
		}
	})
	b.Run("Ended", func(b *testing.B) {
		b.ReportAllocs()
		e := agent.TurnEnded{Turn: turn, Ended: time.Now(), Output: &agent.AgentStepOutput{
			Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, ExecutionTimeMS: 1200,
		}}
		for b.Loop() {
			m.Ended(ctx, e)
		}
	})
	b.Run("Delivered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Delivered(time.Millisecond)
		}
	})
	b.Run("Request at once", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				_, done := m.Request(ctx, agent.ModelObservation{Turn: turn, Model: agent.PlanModel{Profile: "small"}, Purpose: agent.PurposeReply})
				done(agent.ModelOutcome{})
			}
		})
	})
}
