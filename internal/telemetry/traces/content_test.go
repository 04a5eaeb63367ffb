package traces_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

const secretWord = "hunter2-" + "marigold"

func secretTexts() turnTexts {
	return turnTexts{
		"system " + secretWord, "asked " + secretWord, "thought " + secretWord, `{"args":"` + secretWord + `"}`, `{"result":"` + secretWord + `"}`, "failure " + secretWord,
		"answer " + secretWord, "refused " + secretWord,
	}
}

// formatSpans returns all fields of spans as one text.
func formatSpans(spans []tracetest.Span) string {
	var b strings.Builder
	for i := range spans {
		fmt.Fprintf(&b, "%+v\n", spans[i])
	}
	return b.String()
}

func TestContent(t *testing.T) {
	for _, mode := range []traces.Content{"", traces.ContentOff, traces.ContentRedacted, traces.ContentFull} {
		t.Run(string(mode), func(t *testing.T) {
			r, langfuse := tracetest.Receive(t), tracetest.Receive(t)
			tr := open(t, traces.Config{
				Endpoint: r.HTTP, Content: mode, Redact: func(s string) string { return strings.ReplaceAll(s, secretWord, "[redacted]") },
				Langfuse: traces.Langfuse{URL: langfuse.HTTP, PublicKey: "p", SecretKey: "s"},
			})
			o, w := observed("c-1"), secretTexts()
			playTurn(o, w, always(tr))
			// Other places that may quote the secret.
			ctx, end := tr.Work(context.Background(), agent.Work{Name: "CallModel", Turn: o})
			ctx, done := tr.Request(ctx, agent.ModelObservation{Turn: o, Model: model(), Request: &agent.ModelRequest{
				About: "about " + secretWord,
				Messages: []agent.Message{
					{Role: agent.RoleAssistant, Blocks: []agent.Block{
						{Type: agent.BlockToolCall, ID: "x", Name: "n", Args: json.RawMessage(w.args)},
						{Type: agent.BlockImage, URL: "https://x/" + secretWord},
						{Type: agent.BlockNonStandard, Value: json.RawMessage(w.args)},
						{Type: agent.BlockInvalidToolCall, Args: json.RawMessage("not json " + secretWord), Error: secretWord},
					}},
					{Role: agent.RoleTool, Blocks: []agent.Block{{Type: agent.BlockToolResult, ToolCallID: "x", Output: json.RawMessage(w.result)}}},
					{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage, Base64: "AAAA" + secretWord, MIMEType: "image/png"}}},
				},
			}})
			done(agent.ModelOutcome{Err: errors.New(w.failure), Cause: context.Canceled})
			_, ended := tr.Tool(ctx, agent.ToolObservation{Turn: o, Name: "n", CallID: "x", Args: []byte(w.args)})
			ended(agent.ToolOutcome{Refused: true, Result: &agent.ToolResult{Output: json.RawMessage(w.result), Failure: &agent.Failure{Message: w.refused}}})
			end(fmt.Errorf("work: %w", errors.New(w.failure)))
			tr.Ended(ctx, agent.TurnEnded{Turn: observed("c-2"), Output: &agent.AgentStepOutput{
				Status: agent.TurnFailed, Output: w.answer, Error: &agent.Failure{Type: "internal", Message: w.failure},
			}, Record: func(context.Context) (agent.TurnRecord, error) { return agent.TurnRecord{}, errors.New(secretWord) }})
			flush(t, tr)

			all := formatSpans(append(r.Spans(), langfuse.Spans()...))
			require.NotContains(t, all, "AAAA", "media is never exported")
			full := find(t, r.Spans(), "invoke_agent analyst", func(s *tracetest.Span) bool { return s.Attributes["turnstone.turn_id"] == "c-2" })
			require.Equal(t, "internal", full.Attributes["error.type"])
			switch mode {
			case traces.ContentFull:
				for _, piece := range []string{"system", "asked", "thought", "failure", "answer", "refused", "about", "not json"} {
					require.Contains(t, all, piece+" "+secretWord)
				}
				require.Contains(t, all, w.args)
				require.Contains(t, all, w.result)
			case traces.ContentRedacted, "": // with Langfuse
				require.NotContains(t, all, secretWord)
				for _, piece := range []string{"system", "asked", "thought", "failure", "answer", "refused", "about", "not json"} {
					require.Contains(t, all, piece+" [redacted]")
				}
			default:
				require.NotContains(t, all, secretWord)
				for _, piece := range []string{"system ", "asked", "thought", "failure", "answer ", "refused ", "[redacted]", "left out"} {
					require.NotContains(t, all, piece)
				}
				for _, s := range append(r.Spans(), langfuse.Spans()...) {
					require.Empty(t, s.Message, s.Name)
					require.Empty(t, s.Events, s.Name)
				}
			}
		})
	}
}

// Without Langfuse no content is sent unless it is asked for.
func TestContentIsOffWithoutLangfuse(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Redact: func(s string) string { return s }})
	playTurn(observed("c-3"), secretTexts(), always(tr))
	flush(t, tr)
	require.NotEmpty(t, r.Spans())
	require.NotContains(t, formatSpans(r.Spans()), secretWord)
}

func TestContentIsBounded(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{
		Endpoint: r.HTTP, Content: traces.ContentRedacted, Redact: func(s string) string { return strings.ReplaceAll(s, secretWord, "[redacted]") },
		Langfuse: traces.Langfuse{URL: r.HTTP, PublicKey: "p", SecretKey: "s"}, Limits: traces.Limits{ContentBytes: 4096},
	})
	o := observed("b-1")
	var long []agent.Message
	for i := range 500 {
		long = append(long, agent.UserText(fmt.Sprintf("message %d \u00fc\" %s", i, strings.Repeat("x", i%300))))
	}
	ask := func(messages []agent.Message, system string) {
		_, done := tr.Request(context.Background(), agent.ModelObservation{
			Turn: o, Model: model(), Request: &agent.ModelRequest{System: system, Messages: messages},
		})
		done(agent.ModelOutcome{})
	}
	ask(long, strings.Repeat("s", 1<<20))
	// The cut goes through a secret, and through a rune.
	ask([]agent.Message{agent.UserText(strings.Repeat("ü", 1900) + strings.Repeat(secretWord, 400))}, "")
	ask([]agent.Message{{Role: agent.RoleUser, Blocks: make([]agent.Block, 10_000)}}, "")
	flush(t, tr)
	spans := tracetest.Named(r.Spans(), "chat gpt-x")
	require.Len(t, spans, 6)
	for _, s := range spans {
		for _, key := range []string{"gen_ai.input.messages", "langfuse.observation.input"} {
			text := s.Attributes[key].(string)
			require.Less(t, len(text), 2*4096+1024)
			jsonOf(t, text)
			for i := 4; i < len(secretWord); i++ {
				require.NotContains(t, strings.ReplaceAll(text, "[redacted]", ""), secretWord[:i]+"…")
			}
		}
	}
	text := spans[0].Attributes["gen_ai.input.messages"].(string)
	require.Contains(t, text, "message 499", "the newest are kept")
	require.Contains(t, text, "earlier messages]")
	require.JSONEq(t, `[{"type":"text","content":"[left out: 1048576 bytes]"}]`, spans[0].Attributes["gen_ai.system_instructions"].(string))
}

// The sender of a block may put any text into these fields, so they are redacted and cut.
func TestContentInOtherFields(t *testing.T) {
	for _, field := range []func(*agent.Block, string){
		func(b *agent.Block, s string) { b.Type, b.FileID, b.MIMEType = agent.BlockFile, "f", s },
		func(b *agent.Block, s string) { b.Type, b.FileID = agent.BlockFile, s },
		func(b *agent.Block, s string) { b.Type, b.ID, b.Name = agent.BlockServerToolCall, s, "n" },
		func(b *agent.Block, s string) { b.Type, b.ID, b.Name = agent.BlockServerToolCall, "i", s },
		func(b *agent.Block, s string) { b.Type, b.ToolCallID = agent.BlockServerToolResult, agent.CallID(s) },
	} {
		r := tracetest.Receive(t)
		tr := open(t, traces.Config{
			Endpoint: r.HTTP, Content: traces.ContentRedacted, Redact: func(s string) string { return strings.ReplaceAll(s, secretWord, "[redacted]") },
		})
		var b agent.Block
		field(&b, secretWord+strings.Repeat("long ", 20<<10))
		_, done := tr.Request(context.Background(), agent.ModelObservation{Turn: observed("odd"), Model: model(), Request: &agent.ModelRequest{
			Messages: []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{b}}},
		}})
		done(agent.ModelOutcome{})
		flush(t, tr)
		all := formatSpans(r.Spans())
		require.Contains(t, all, "[redacted]long")
		require.NotContains(t, all, secretWord)
		require.Contains(t, all, "… [cut: ")
	}
}
