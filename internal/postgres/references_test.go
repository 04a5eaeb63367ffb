package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func source(key string, aliases ...string) agent.Reference {
	return agent.Reference{Key: key, Aliases: aliases, Source: "pubmed", Item: json.RawMessage(`{"title":"A"}`)}
}

func TestAddReferencesRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	tests := map[string]struct {
		field string
		ref   agent.Reference
	}{
		"no key":       {"references[1].key", source("")},
		"a NUL":        {"references[1].key", source("a\x00")},
		"long":         {"references[1].key", source(strings.Repeat("x", 1<<10))},
		"empty alias":  {"references[1].aliases[1]", source("a", "b", "")},
		"many aliases": {"references[1].aliases", source("a", make([]string, 65)...)},
		"no item":      {"references[1].item", agent.Reference{Key: "a"}},
		"null":         {"references[1].item", agent.Reference{Key: "a", Item: json.RawMessage(`null`)}},
		"a list":       {"references[1].item", agent.Reference{Key: "a", Item: json.RawMessage(`[]`)}},
		"large":        {"references[1].item", agent.Reference{Key: "a", Item: json.RawMessage(`{"a":"` + strings.Repeat("x", 256<<10) + `"}`)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.AddReferences(t.Context(), tenant, "s", []agent.Reference{source("good"), test.ref})
			requireFault(t, agent.CodeInvalid, test.field, err)
		})
	}
	_, err := b.AddReferences(t.Context(), tenant, "s", make([]agent.Reference, 1001))
	requireFault(t, agent.CodeInvalid, "references", err)
	require.Zero(t, b.count("session_references"), "all or nothing")
	require.Zero(t, b.count("reference_lists"))
}

func TestReferencesAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	_, err := b.pool.Exec(t.Context(), `
		INSERT INTO reference_lists VALUES ('acme', 's', 9999);
		INSERT INTO session_references SELECT 'acme', 's', i, 'k' || i, '{}', '', '{}', now() FROM generate_series(1, 9999) i;
		INSERT INTO reference_names SELECT 'acme', 's', 'k' || i, i FROM generate_series(1, 9999) i`)
	require.NoError(t, err)
	_, err = b.AddReferences(t.Context(), tenant, "s", []agent.Reference{source("k7"), source("n1"), source("n2")})
	requireCode(t, agent.CodeOverflow, err)
	kept, err := b.AddReferences(t.Context(), tenant, "s", []agent.Reference{source("k7"), source("n1")})
	require.NoError(t, err)
	require.Equal(t, 7, kept[0].Number)
	require.JSONEq(t, `{"title":"A"}`, string(kept[0].Item))
	require.Equal(t, 10_000, kept[1].Number)

	for i := range 3 {
		var aliases []string
		for j := range 60 {
			aliases = append(aliases, fmt.Sprintf("alias %d.%d", i, j))
		}
		kept, err = b.AddReferences(t.Context(), tenant, "s", []agent.Reference{source("n1", aliases...)})
		require.NoError(t, err)
	}
	require.Len(t, kept[0].Aliases, 64)
	big := source("n1")
	big.Item = json.RawMessage(`{"title":"B","a":"` + strings.Repeat("x", 256<<10-30) + `"}`)
	kept, err = b.AddReferences(t.Context(), tenant, "s", []agent.Reference{big})
	require.NoError(t, err)
	require.NotContains(t, string(kept[0].Item), `"B"`)
}

func TestReferencesGoWithTheSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, session := range []string{"s", "kept"} {
		b.ready("t-"+session, session)
		_, err := b.AddReferences(t.Context(), tenant, agent.SessionID(session), []agent.Reference{source("a", "b")})
		require.NoError(t, err)
		_, err = b.SaveTurnTools(t.Context(), agent.TurnID("t-"+session), agent.TurnTools{Missing: []string{"x"}})
		require.NoError(t, err)
		b.finish(finish("t-"+session, session))
	}
	b.forget("s")
	for _, table := range []string{"reference_lists", "session_references", "turn_tools"} {
		require.Equal(t, 1, b.count(table), table)
	}
	require.Equal(t, 2, b.count("reference_names"))
}

func TestTurnTools(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	_, ok, err := b.TurnTools(t.Context(), "t1")
	require.NoError(t, err)
	require.False(t, ok)
	tools := agent.TurnTools{
		Tools:   []agent.PlanTool{{Spec: agent.ToolSpec{Name: "fetch", Parameters: json.RawMessage(`{"type":"object","x":1.50}`)}, Toolkit: "pipeline", Handle: "c@1"}},
		Missing: []string{"mcp"},
	}
	kept, err := b.SaveTurnTools(t.Context(), "t1", tools)
	require.NoError(t, err)
	require.Equal(t, tools, kept)
	kept, err = b.SaveTurnTools(t.Context(), "t1", agent.TurnTools{})
	require.NoError(t, err)
	require.Equal(t, tools, kept, "the first stands")
	kept, ok, err = b.TurnTools(t.Context(), "t1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, tools, kept)
	_, err = b.SaveTurnTools(t.Context(), "nobody", tools)
	requireCode(t, agent.CodeNotFound, err)
	_, err = b.SaveTurnTools(t.Context(), "t1", agent.TurnTools{Missing: []string{strings.Repeat("x", 16<<20)}})
	requireCode(t, agent.CodeOverflow, err)

	_, err = b.pool.Exec(t.Context(), `
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 'x' || i, 'acme', 's', i + 10, 'completed', '', '', '', '', '', '', '', '', '', '[]', '{}' FROM generate_series(1, 5000) i;
		INSERT INTO turn_tools SELECT turn_id, '{}' FROM turns WHERE turn_id LIKE 'x%'; ANALYZE`)
	require.NoError(t, err)
	plan := b.explain(postgres.ReadTurnTools, "x7")
	require.Contains(t, plan, "turn_tools_pkey", plan)
}
