package turns_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

const capital = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`

// schemaModel is a model that enforces schemas itself.
type schemaModel struct{ *scriptedModel }

func (n schemaModel) Model(context.Context, agent.PlanModel) (agent.Model, error) { return n, nil }
func (schemaModel) Capabilities() agent.Capabilities                              { return agent.Capabilities{OutputSchema: true} }

func structured(args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: "s", Name: "structured_response", Args: json.RawMessage(args)}
}

// talks returns a reply that has text and tool calls.
func talks(words string, blocks ...agent.Block) modelStep {
	return func(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		if err := emit(agent.Delta{Text: words}); err != nil {
			return agent.ModelReply{}, err
		}
		reply, err := calls(blocks...)(ctx, req, emit)
		reply.Blocks = append([]agent.Block{agent.Text(words)}, reply.Blocks...)
		return reply, err
	}
}

func TestStructuredAnswer(t *testing.T) {
	cases := map[string]struct {
		schemaModel bool
		modelStep   modelStep
		calls       int    // the calls of other tools
		missed      string // part of the feedback
		shown       string // the text that viewers see
	}{
		"native":                  {schemaModel: true, modelStep: says(`{"city":`, ` "Bern"}`), shown: `{"city": "Bern"}`},
		"native, not JSON":        {schemaModel: true, modelStep: says("Bern"), missed: "output", shown: "Bern"},
		"native, another shape":   {schemaModel: true, modelStep: says(`{"town":"Bern"}`), missed: "city", shown: `{"town":"Bern"}`},
		"by tool":                 {modelStep: calls(structured(`{ "city": "Bern" }`)), shown: `{"city":"Bern"}`},
		"by tool, another shape":  {modelStep: calls(structured(`{"city":1}`)), missed: "output.city", shown: `{"city":1}`},
		"by tool, with words":     {modelStep: talks("Here it is: ", structured(`{"city":"Bern"}`)), shown: `{"city":"Bern"}`},
		"by tool, too early":      {modelStep: calls(structured(`{"city":"Bern"}`), toolCall("a", `{}`)), calls: 1},
		"by tool, asks for tools": {modelStep: talks("Let me see. ", toolCall("a", `{}`)), calls: 1, shown: "Let me see. "},
		"by tool, plain words":    {modelStep: says("Bern"), missed: "output", shown: "Bern"},
		"by tool, plain JSON":     {modelStep: says(`{"city":"Bern"}`), shown: `{"city":"Bern"}`},
		"by tool, twice":          {modelStep: calls(structured(`{"city":"Bern"}`), structured(`{"city":"Basel"}`)), shown: `{"city":"Bern"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(cfg *turns.Config) {
				if c.schemaModel {
					cfg.Models = schemaModel{cfg.Models.(*scriptedModel)}
				}
			})
			ref := h.begin(agent.TurnRequest{TurnID: "t1", OutputSchema: json.RawMessage(capital)})
			h.model.script(c.modelStep)
			v := h.callModel(ref.TurnID, 1)
			require.Len(t, v.Calls, c.calls)
			require.Equal(t, c.missed == "", v.Unstructured == "", v.Unstructured)
			require.Contains(t, v.Unstructured, c.missed)
			require.Equal(t, c.shown, shown(h.events("t1")))
			req := h.model.seen[0]
			require.Equal(t, c.schemaModel, len(req.OutputSchema) > 0)
			require.Equal(t, !c.schemaModel, req.ToolChoice == "required")

			models, _, err := h.store.Steps(t.Context(), "t1")
			require.NoError(t, err)
			if c.missed != "" {
				h.model.script(says("x"))
				h.callModel(ref.TurnID, 2)
				last := h.model.seen[1].Messages
				require.Equal(t, agent.RoleUser, last[len(last)-1].Role, "the model gets the reason")
				require.Contains(t, agent.Normalize(last[len(last)-1].Blocks), c.missed)
				return
			}
			if c.calls > 0 {
				for _, b := range models[0].Blocks {
					require.NotEqual(t, "structured_response", b.Name)
				}
				return
			}
			out, err := h.Finish(t.Context(), turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
			require.NoError(t, err)
			require.JSONEq(t, `{"city":"Bern"}`, string(out.Structured))
			require.Equal(t, string(out.Structured), out.Output)
		})
	}
}

func shown(events []agent.Event) (text string) {
	for i := range events {
		if events[i].Type == agent.EventToken {
			text += events[i].Text
		}
	}
	return text
}

func TestPlansOutputSchema(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) { p.OutputSchema = json.RawMessage(capital) })
	out, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t1", Message: "x"}, turns.BeginTurnInput{RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, 2, out.Rules.StructuredTries)
	h.model.script(calls(structured(`{"city":"Bern"}`)))
	h.callModel("t1", 1)
	stored := h.completeTurn("t1")
	require.True(t, stored.Structured)
	require.JSONEq(t, `{"city":"Bern"}`, stored.Output)
}

func TestClosingWords(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(calls(toolCall("a", `{}`)))
	h.callModel("t1", 1)
	in := turns.StoreTurnInput{
		TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopModelCalls, Closing: "Model call limit reached.", Step: 2,
	}
	for range 2 {
		out, err := h.Finish(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, "Model call limit reached.", out.Output)
		require.Nil(t, out.Error)
	}
	require.Equal(t, "Model call limit reached.", shown(h.events("t1")))
	messages, err := h.store.Messages(t.Context(), "default", "s1", 0, 10)
	require.NoError(t, err)
	require.Len(t, messages, 4, "question, call, result, closing answer")
	require.Equal(t, agent.RoleTool, messages[2].Message.Role)
	require.Equal(t, "Model call limit reached.", agent.Normalize(messages[3].Message.Blocks))
}

// TestStoringTwice: storing a turn again returns the same output, with and without blocks.
func TestStoringTwice(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("plain words"))
	h.callModel("t1", 1)
	in := turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn}
	first := h.storeTurn(in)
	again := h.storeTurn(in)
	require.Equal(t, first, again)
	require.False(t, again.Structured)
}
