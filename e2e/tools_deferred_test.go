package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// shop is a toolkit of many tools, each a verb and a noun, that say what they were called with.
type shop struct {
	name         string
	verbs, nouns []string
}

func (k shop) Name() string { return k.name }

func (k shop) Tools() []agent.Tool {
	tools := make([]agent.Tool, 0, len(k.verbs)*len(k.nouns))
	for _, noun := range k.nouns {
		for _, verb := range k.verbs {
			tools = append(tools, shopTool{agent.ToolSpec{
				Name: verb + "_" + noun, Description: fmt.Sprintf("Will %s the %s of a customer, as the shop's rules have it.", verb, noun),
				Parameters: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"integer","description":"Number of the ` +
					noun + `"},"reason":{"type":"string","description":"Why, for the files"}}}`),
				InherentlySafe: true,
			}})
		}
	}
	return tools
}

type shopTool struct{ spec agent.ToolSpec }

func (s shopTool) Spec() agent.ToolSpec { return s.spec }

func (s shopTool) Call(_ context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	out, err := json.Marshal(map[string]any{"did": s.spec.Name, "with": call.Args})
	return agent.ToolResult{Output: out}, err
}

// numbered are words with a number behind each.
func numbered(n int, words ...string) []string {
	var out []string
	for _, w := range words {
		for i := range n {
			out = append(out, fmt.Sprint(w, i))
		}
	}
	return out
}

// TestDeferredTools: 500 tools cost a few hundred tokens until one is looked for, and then it can be called. What is not granted is not found.
func TestDeferredTools(t *testing.T) {
	t.Parallel()
	kit := shop{
		name: "crm", verbs: []string{"read", "list", "create", "update", "archive", "refund", "export", "assign", "merge", "tag"},
		nouns: append([]string{"invoice", "contact"}, numbered(12, "order", "ticket", "parcel", "note")...),
	}
	require.Len(t, kit.Tools(), 500)
	vault := shop{name: "vault", verbs: []string{"refund", "erase"}, nouns: []string{"everything"}}
	provider := turnstonetest.NewModel(t,
		asks("c1", "search_tools", `{"query":"refund an invoice","limit":3}`),
		asks("c2", "refund_invoice", `{"id":7}`),
		turnstonetest.Say("refunded"),
		asks("c3", "search_tools", `{"query":"erase everything refund_everything","limit":50}`),
		asks("c4", "erase_everything", `{"id":1}`),
		turnstonetest.Say("there is no such thing"),
	)
	s := startService(t, turnstone.Config{Settings: turnstonetest.Settings(t), Toolkits: []agent.Toolkit{kit, vault}})
	s.worksFor(provider, "[todo, {toolkit: crm, deferred: true}]")

	out, events := s.ask("many", "refund invoice 7")
	before := offeredIn(t, provider, 0)
	require.ElementsMatch(t, []string{"write_todos", "search_tools"}, before.names)
	without := startService(t, turnstone.Config{Settings: turnstonetest.Settings(t), Toolkits: []agent.Toolkit{kit, vault}})
	plain := turnstonetest.NewModel(t, turnstonetest.Say("hello"))
	without.worksFor(plain, "[todo, crm]")
	without.ask("all", "hello")
	told := offeredIn(t, plain, 0)
	require.Len(t, told.names, 501)
	t.Logf("500 tools: %d bytes in a request that has them deferred, %d in one that has not", before.bytes, told.bytes)
	require.Less(t, before.bytes, 3<<10)
	require.Greater(t, told.bytes, 50*before.bytes)

	found := offeredIn(t, provider, 1)
	require.True(t, found.has("refund_invoice"), "%v: %v", found.names, toolEnds(events))
	require.LessOrEqual(t, len(found.names), 2+3, "as many as were asked for")
	require.Equal(t, before.names, found.names[:2], "what is found comes behind")
	require.Len(t, out.ToolCalls, 2)
	require.Equal(t, "success", out.ToolCalls[1].Status)
	require.JSONEq(t, `{"did":"refund_invoice","with":{"id":7}}`, toolEnds(events)[1])
	s.closed(out.TurnID)
	s.replay("", out.TurnID.WorkflowID(), "")

	out, events = s.ask("many", "erase everything")
	require.True(t, offeredIn(t, provider, 3).has("refund_invoice"), "what the conversation found stays")
	require.NotContains(t, toolEnds(events)[0], "_everything", "what is not granted is not found")
	require.Equal(t, "error", out.ToolCalls[1].Status)
	require.Contains(t, toolEnds(events)[1], "not granted")
}
