package traces_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

// Whatever of a block its sender may fill with words is content: redacted, and cut.
func TestContentInOddPlaces(t *testing.T) {
	for _, field := range []func(*agent.Block, string){
		func(b *agent.Block, s string) { b.Type, b.FileID, b.MIMEType = agent.BlockFile, "f", s },
		func(b *agent.Block, s string) { b.Type, b.FileID = agent.BlockFile, s },
		func(b *agent.Block, s string) { b.Type, b.ID, b.Name = agent.BlockServerToolCall, s, "n" },
		func(b *agent.Block, s string) { b.Type, b.ID, b.Name = agent.BlockServerToolCall, "i", s },
		func(b *agent.Block, s string) { b.Type, b.ToolCallID = agent.BlockServerToolResult, agent.CallID(s) },
	} {
		r := tracetest.Receive(t)
		tr := open(t, traces.Config{
			Endpoint: r.HTTP, Content: traces.ContentRedacted, Redact: func(s string) string { return strings.ReplaceAll(s, word, "[redacted]") },
		})
		var b agent.Block
		field(&b, word+strings.Repeat("long ", 20<<10))
		_, done := tr.Request(context.Background(), agent.ModelObservation{Turn: observed("odd"), Model: model(), Request: &agent.ModelRequest{
			Messages: []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{b}}},
		}})
		done(agent.ModelOutcome{})
		flush(t, tr)
		all := everything(r.Spans())
		require.Contains(t, all, "[redacted]long")
		require.NotContains(t, all, word)
		require.Contains(t, all, "… [cut: ")
	}
}
