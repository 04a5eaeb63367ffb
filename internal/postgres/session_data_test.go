package postgres_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestNotes(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	note := func(who, session, name string) string {
		body, err := b.Note(t.Context(), who, agent.SessionID(session), name)
		require.NoError(t, err)
		return string(body)
	}
	require.Empty(t, note(tenant, "s", "summary"))
	for _, body := range []string{`{"n": 1.50, "t": "\u0000"}`, `null`, `"` + strings.Repeat("x", 256<<10-2) + `"`} {
		require.NoError(t, b.SetNote(t.Context(), tenant, "s", "summary", json.RawMessage(body)))
		if len(body) < 100 {
			require.JSONEq(t, body, note(tenant, "s", "summary"))
		} else {
			require.Equal(t, body, note(tenant, "s", "summary"))
		}
	}
	require.Empty(t, note(tenant, "s", "other"))
	require.Empty(t, note("evil", "s", "summary"))
	require.Empty(t, note(tenant, "nowhere", "summary"))

	tests := map[string]struct {
		session agent.SessionID
		name    string
		body    string
		want    agent.Code
	}{
		"too large":       {"s", "summary", `"` + strings.Repeat("x", 256<<10) + `"`, agent.CodeOverflow},
		"no JSON":         {"s", "summary", `{`, agent.CodeInvalid},
		"nothing":         {"s", "summary", ``, agent.CodeInvalid},
		"bad name":        {"s", "a\x00", `1`, agent.CodeInvalid},
		"unknown session": {"nowhere", "summary", `1`, agent.CodeNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			requireCode(t, test.want, b.SetNote(t.Context(), tenant, test.session, test.name, json.RawMessage(test.body)))
		})
	}
	require.Equal(t, 1, b.count("session_notes"))
}

func TestCallCounts(t *testing.T) {
	b := newBench(t, postgres.Config{})
	counts := func() agent.CallCounts {
		c, err := b.CallCounts(t.Context(), tenant, "s")
		require.NoError(t, err)
		return c
	}
	require.Zero(t, counts())
	for _, id := range []string{"t1", "t2"} {
		b.ready(id, "s")
		first := modelStep(id, 1, 2, call("c1"), call("c2"), agent.Block{Type: agent.BlockToolCall, ID: "c3", Name: "send"})
		first.Calls = append(first.Calls, agent.UsageEntry{Epoch: 1, Model: "small"}) // a repeated epoch is not another reply
		require.NoError(t, b.SaveModelStep(t.Context(), first))
		require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "c1", 1)))
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 2, 1, agent.Text("done"))))
		if id == "t1" {
			require.Zero(t, counts(), "a running turn does not count")
			b.finish(finish(id, "s"))
		}
	}
	require.Equal(t, agent.CallCounts{Model: 2, Tools: []agent.ToolCount{{Tool: "lookup", Calls: 2}, {Tool: "send", Calls: 1}}}, counts())
	b.finish(finish("t2", "s"))
	require.Equal(t, agent.CallCounts{Model: 4, Tools: []agent.ToolCount{{Tool: "lookup", Calls: 4}, {Tool: "send", Calls: 2}}}, counts())
	foreign, err := b.CallCounts(t.Context(), "evil", "s")
	require.NoError(t, err)
	require.Zero(t, foreign)
}

func TestPrepared(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	_, ok, err := b.Prepared(t.Context(), "t1")
	require.NoError(t, err)
	require.False(t, ok)

	epoch := b.epoch("t1", "prepare")
	p := agent.Prepared{
		TurnID: "t1", Tenant: tenant, Fence: agent.Fence{StreamID: "t1", Producer: "prepare", Epoch: epoch},
		Branch: agent.BranchRetrieval, Query: "what\x00?",
		Passages: []agent.Passage{{ID: "d#0", Collection: "docs", DocumentID: "d", Text: "text", Score: 0.5, Metadata: json.RawMessage(`{"a":1.50}`)}},
		Calls:    []agent.UsageEntry{{Epoch: 1, Model: "small", Usage: agent.Usage{InputTokens: 3, CostUSD: 0.5}}, {Epoch: 2, Model: "small", Usage: agent.Usage{InputTokens: 4, Unpriced: true}}},
		Usage:    agent.Usage{InputTokens: 7, CostUSD: 0.5},
	}
	require.NoError(t, b.SavePrepared(t.Context(), p))
	second := p
	second.Query = "something else"
	require.NoError(t, b.SavePrepared(t.Context(), second))
	got, ok, err := b.Prepared(t.Context(), "t1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, p, got, "the first one wins")
	require.Equal(t, 2, b.count("usage_ledger WHERE step = 0"))

	foreign := p
	foreign.Tenant = "evil"
	requireCode(t, agent.CodeNotFound, b.SavePrepared(t.Context(), foreign))
	b.ready("t2", "s2")
	b.epoch("t2", "prepare")
	b.epoch("t2", "prepare")
	late := p
	late.TurnID, late.Fence = "t2", agent.Fence{StreamID: "t2", Producer: "prepare", Epoch: 1}
	require.ErrorIs(t, b.SavePrepared(t.Context(), late), agent.ErrFenced)
	_, ok, err = b.Prepared(t.Context(), "t2")
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, 2, b.count("usage_ledger WHERE turn_id = 't2'"), "the costs of the overtaken attempt are in the ledger")
	late.Fence.Epoch = 2
	b.finish(finish("t2", "s2"))
	require.ErrorIs(t, b.SavePrepared(t.Context(), late), agent.ErrFenced)
}

func dataset(ref string, rows int) *agent.Dataset {
	return &agent.Dataset{Ref: ref, RowCount: rows, Fields: []agent.DatasetField{{Name: "price", Type: "number"}, {Name: "\x00", Type: "mixed"}}}
}

// leave runs a turn whose calls store datasets. nil is a call without one.
func (b *bench) leave(id string, sets ...*agent.Dataset) {
	b.t.Helper()
	b.ready(id, "s")
	for i, set := range sets {
		step := i + 1
		require.NoError(b.t, b.SaveModelStep(b.t.Context(), modelStep(id, step, 1, call("c1"))))
		s := toolStep(id, step, "c1", 1)
		s.Dataset, s.CacheHit = set, set != nil && set.RowCount == 0
		require.NoError(b.t, b.SaveToolStep(b.t.Context(), s))
	}
}

func (b *bench) datasets(before string, n int) []string {
	b.t.Helper()
	found, err := b.Datasets(b.t.Context(), tenant, "s", agent.TurnID(before), n)
	require.NoError(b.t, err)
	var lines []string
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%s %s %d %s %d %s", d.TurnID, d.Ref[13:14], d.RowCount, d.Tool, len(d.Fields), d.Args))
	}
	return lines
}

func TestDatasets(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.leave("t1", dataset(cas("1"), 1), nil, dataset(cas("2"), 2))
	require.Empty(t, b.datasets("t1", 10), "not its own")
	b.finish(finish("t1", "s"))
	b.leave("t2", nil)
	b.finish(finish("t2", "s"))
	b.leave("t3", dataset(cas("3"), 3))
	line := func(turn string, n int) string { return fmt.Sprintf(`%s %d %d lookup 2 {"q":"x"}`, turn, n, n) }
	require.Equal(t, []string{line("t1", 2), line("t1", 1)}, b.datasets("t3", 10))
	b.finish(finish("t3", "s"))
	b.begin(turn("t4", "s"))
	b.begin(turn("t5", "s"))
	require.Equal(t, []string{line("t3", 3), line("t1", 2), line("t1", 1)}, b.datasets("t4", 10))
	require.Equal(t, []string{line("t3", 3), line("t1", 2)}, b.datasets("t5", 2))
	require.Equal(t, []string{line("t1", 2), line("t1", 1)}, b.datasets("t3", 10), "no datasets of later turns")
	require.Empty(t, b.datasets("t5", 0))
	require.Empty(t, b.datasets("unknown", 10))
	foreign, err := b.Datasets(t.Context(), "evil", "s", "t5", 10)
	require.NoError(t, err)
	require.Empty(t, foreign)
	elsewhere, err := b.Datasets(t.Context(), tenant, "other", "t5", 10)
	require.NoError(t, err)
	require.Empty(t, elsewhere)
}

func TestDatasetsKeepTheOrderOfCalls(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("c2"), call("c1"))))
	for i, id := range []string{"c2", "c1"} {
		s := toolStep("t1", 1, id, 1)
		s.Dataset = dataset(cas(strconv.Itoa(i+1)), i+1)
		require.NoError(t, b.SaveToolStep(t.Context(), s))
	}
	b.finish(finish("t1", "s"))
	b.begin(turn("t2", "s"))
	require.Equal(t, []string{`t1 2 2 lookup 2 {"q":"x"}`, `t1 1 1 lookup 2 {"q":"x"}`}, b.datasets("t2", 10), "the last call is the newest")
}

func TestDatasetsAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t0", "s")
	long := call("c1")
	long.Args = json.RawMessage(`{"q":"` + strings.Repeat("x", 20_000) + `"}`)
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t0", 1, 1, long)))
	s := toolStep("t0", 1, "c1", 1)
	s.Dataset = dataset(cas("1"), 1)
	require.NoError(t, b.SaveToolStep(t.Context(), s))
	b.finish(finish("t0", "s"))
	for i := range 50 {
		id := fmt.Sprintf("n%d", i)
		b.ready(id, "s")
		if i == 49 {
			require.Equal(t, []string{"t0 1 1 lookup 2 "}, b.datasets(id, 10), "without its arguments")
		}
		b.finish(finish(id, "s"))
	}
	b.begin(turn("now", "s"))
	require.Empty(t, b.datasets("now", 10), "at most fifty turns back")
}

// The query only uses indexes, however many other turns there are.
func TestDatasetsReadsOnlyTheSession(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.exec(`
		INSERT INTO sessions (tenant, session_id) SELECT 'acme', 's' || i FROM generate_series(1, 50) i;
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 's' || i % 50 + 1 || 't' || i, 'acme', 's' || i % 50 + 1, i, 'completed', '', '', '', '', '', '', '', '', '', '[]', '{}'
		FROM generate_series(1, 20000) i;
		INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, status, ref, duration_ms, dataset)
		SELECT turn_id, 1, 'c1', tenant, 'x', 'success', '', 1, '{}' FROM turns;
		ANALYZE`)
	plan := b.explain(postgres.ReadDatasets, tenant, "s7", "s7t19956", 10, 16<<10, 50)
	require.NotContains(t, plan, "Seq Scan", plan)
	require.Contains(t, plan, "Index Scan Backward using turns_tenant_session_id_seq_key", plan)
	require.Contains(t, plan, "tool_calls_pkey", plan)
}

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
	b.exec(`
		INSERT INTO reference_lists VALUES ('acme', 's', 9999);
		INSERT INTO session_references SELECT 'acme', 's', i, 'k' || i, '{}', '', '{}', now() FROM generate_series(1, 9999) i;
		INSERT INTO reference_names SELECT 'acme', 's', 'k' || i, i FROM generate_series(1, 9999) i`)
	_, err := b.AddReferences(t.Context(), tenant, "s", []agent.Reference{source("k7"), source("n1"), source("n2")})
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
	b.deleteSession("s")
	for _, table := range []string{"reference_lists", "session_references", "turn_tools"} {
		require.Equal(t, 1, b.count(table), table)
	}
	require.Equal(t, 2, b.count("reference_names"))
}

func TestTurnTools(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, tools, kept, "the first one wins")
	kept, ok, err = b.TurnTools(t.Context(), "t1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, tools, kept)
	_, err = b.SaveTurnTools(t.Context(), "nobody", tools)
	requireCode(t, agent.CodeNotFound, err)
	_, err = b.SaveTurnTools(t.Context(), "t1", agent.TurnTools{Missing: []string{strings.Repeat("x", 16<<20)}})
	requireCode(t, agent.CodeOverflow, err)

	b.exec(`
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 'x' || i, 'acme', 's', i + 10, 'completed', '', '', '', '', '', '', '', '', '', '[]', '{}' FROM generate_series(1, 5000) i;
		INSERT INTO turn_tools SELECT turn_id, '{}' FROM turns WHERE turn_id LIKE 'x%'; ANALYZE`)
	plan := b.explain(postgres.ReadTurnTools, "x7")
	require.Contains(t, plan, "turn_tools_pkey", plan)
}
