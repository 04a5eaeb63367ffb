package postgres_test

import (
	"encoding/json"
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
		first.Calls = append(first.Calls, agent.UsageEntry{Epoch: 1, Model: "small"}) // a repetition is no reply
		require.NoError(t, b.SaveModelStep(t.Context(), first))
		require.NoError(t, b.SaveToolStep(t.Context(), toolStep(id, 1, "c1", 1)))
		require.NoError(t, b.SaveModelStep(t.Context(), modelStep(id, 2, 1, agent.Text("done"))))
		if id == "t1" {
			require.Zero(t, counts(), "a turn that runs does not count")
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
		Calls:    []agent.UsageEntry{{Epoch: 1, Model: "small", Usage: agent.Usage{InputTokens: 3, CostUSD: 0.5}}, {Epoch: 2, Model: "small", Usage: agent.Usage{InputTokens: 4}}},
		Usage:    agent.Usage{InputTokens: 7, CostUSD: 0.5},
	}
	require.NoError(t, b.SavePrepared(t.Context(), p))
	second := p
	second.Query = "something else"
	require.NoError(t, b.SavePrepared(t.Context(), second))
	got, ok, err := b.Prepared(t.Context(), "t1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, p, got, "the first stands")
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
	require.Equal(t, 2, b.count("usage_ledger WHERE turn_id = 't2'"), "what the zombie spent is on the bill")
	late.Fence.Epoch = 2
	b.finish(finish("t2", "s2"))
	require.ErrorIs(t, b.SavePrepared(t.Context(), late), agent.ErrFenced)
}
