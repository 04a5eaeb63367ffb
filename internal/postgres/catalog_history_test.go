package postgres_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func (b *bench) history(q agent.HistoryQuery) agent.HistoryPage {
	b.t.Helper()
	page, err := b.CatalogHistory(b.t.Context(), q)
	require.NoError(b.t, err)
	return page
}

// trail renders entries, one string each: revision, action, key, before and after.
func trail(entries []agent.AuditEntry) []string {
	lines := []string{}
	for i := range entries {
		e := &entries[i]
		lines = append(lines, fmt.Sprintf("%d %s %s %s→%s", e.Revision, e.Action, e.DocumentKey, e.Before, e.After))
	}
	return lines
}

func TestHistorySaysWhatWasWhoAndWhy(t *testing.T) {
	b := newBench(t, postgres.Config{})
	node := agent.DocumentKey{Kind: agent.KindNode, Name: "a", Version: "1"}
	b.commit(agent.CatalogCommit{
		By: "ops", Source: agent.SourceAPI, Comment: "because",
		Put: []agent.Document{put(agentKey("a"), `{"b":1.50}`), put(node, `1`)}, Publish: []agent.Artifact{artifact("a", "11")},
	})
	b.commit(agent.CatalogCommit{
		By: "dev", Source: agent.SourceFolder, Put: []agent.Document{put(agentKey("a"), `{"b":1.50}`)},
		Delete: []agent.DocumentKey{node}, Publish: []agent.Artifact{artifact("a", "22")},
	})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(node, `3`)}, Delete: []agent.DocumentKey{agentKey("a")}})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("a"), `4`)}})

	first := `{"compiled_artifact_hash":"sha256:11","compiled_artifact_uri":"cas://sha256:11","inputs":"inputs of 11"}`
	second := strings.ReplaceAll(first, "11", "22")
	all := []string{
		"4 created AgentInstance acme/a →4",
		"3 created NodeDefinition a@1 →3",
		`3 deleted AgentInstance acme/a {"b":1.50}→`,
		"2 deleted NodeDefinition a@1 1→",
		`2 updated AgentInstance acme/a {"b":1.50}→{"b":1.50}`,
		"2 published AgentInstance acme/a " + first + "→" + second,
		"1 created NodeDefinition a@1 →1",
		"1 published AgentInstance acme/a →" + first,
		`1 created AgentInstance acme/a →{"b":1.50}`,
	}
	page := b.history(agent.HistoryQuery{})
	require.Equal(t, all, trail(page.Entries))
	require.Empty(t, page.Next)
	documents := b.load().Documents
	require.Equal(t, documents[0].UpdatedAt, page.Entries[0].At)
	for _, e := range page.Entries[6:] {
		require.Equal(t, []string{"ops", agent.SourceAPI, "because"}, []string{e.By, e.Source, e.Comment})
		require.Equal(t, page.Entries[6].At, e.At, "a commit has one time")
		require.Equal(t, time.UTC, e.At.Location())
	}
	require.Equal(t, []string{"dev", agent.SourceFolder, ""}, []string{page.Entries[3].By, page.Entries[3].Source, page.Entries[3].Comment})
	require.True(t, slices.IsSortedFunc(page.Entries, func(x, y agent.AuditEntry) int { return y.At.Compare(x.At) }))

	filtered := func(q agent.HistoryQuery) []string { return trail(b.history(q).Entries) }
	require.Equal(t, []string{all[1], all[3], all[6]}, filtered(agent.HistoryQuery{Kind: agent.KindNode}))
	require.Equal(t, []string{all[0], all[2], all[4], all[5], all[7], all[8]}, filtered(agent.HistoryQuery{Tenant: tenant}))
	require.Equal(t, all, filtered(agent.HistoryQuery{Name: "a"}))
	require.Empty(t, filtered(agent.HistoryQuery{Kind: agent.KindNode, Tenant: tenant}))
	require.Empty(t, filtered(agent.HistoryQuery{Name: "A"}))
}

func TestHistoryComesInPages(t *testing.T) {
	b := newBench(t, postgres.Config{})
	var want []string
	for r := range 5 {
		var c agent.CatalogCommit
		for i := range 7 {
			key := agent.DocumentKey{Kind: agent.KindNode, Name: fmt.Sprint(i % 2), Version: fmt.Sprint(i)}
			c.Put = append(c.Put, put(key, fmt.Sprint(r)))
		}
		b.commit(c)
	}
	want = trail(b.history(agent.HistoryQuery{}).Entries)
	require.Len(t, want, 35)

	read := func(q agent.HistoryQuery) (got []string) {
		for {
			page := b.history(q)
			require.LessOrEqual(t, len(page.Entries), q.Size)
			got = append(got, trail(page.Entries)...)
			if q.Token = page.Next; q.Token == "" {
				return got
			}
			require.Len(t, page.Entries, q.Size)
			if len(got) < 20 { // what comes meanwhile is newer, and so on no later page
				b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("late"), `1`)}})
			}
		}
	}
	for _, size := range []int{1, 2, 5, 34, 35, 36} {
		require.Equal(t, want, read(agent.HistoryQuery{Kind: agent.KindNode, Page: agent.Page{Size: size}}), "pages of %d", size)
	}
	odd := read(agent.HistoryQuery{Kind: agent.KindNode, Name: "1", Page: agent.Page{Size: 2}})
	require.Len(t, odd, 15)

	var c agent.CatalogCommit
	for i := range 1100 {
		c.Put = append(c.Put, put(agentKey(fmt.Sprint(i)), `1`))
	}
	b.commit(c)
	require.Len(t, b.history(agent.HistoryQuery{}).Entries, 100)
	require.Len(t, b.history(agent.HistoryQuery{Page: agent.Page{Size: 100_000}}).Entries, 1000)
}

func TestHistoryPagesAreBoundedInBytes(t *testing.T) {
	b := newBench(t, postgres.Config{})
	body := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for range 2 {
		var c agent.CatalogCommit
		for i := range 6 {
			c.Put = append(c.Put, put(agentKey(fmt.Sprint(i)), body))
		}
		b.commit(c)
	}
	var sizes []int
	q := agent.HistoryQuery{}
	for {
		page := b.history(q)
		sizes = append(sizes, len(page.Entries))
		if q.Token = page.Next; q.Token == "" {
			break
		}
	}
	require.Equal(t, []int{4, 6, 2}, sizes, "8 MiB: six with a before, six without")
}

func TestHistoryRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	token := func(text string) agent.Page {
		return agent.Page{Token: base64.RawURLEncoding.EncodeToString([]byte(text))}
	}
	tests := map[string]struct {
		query agent.HistoryQuery
		field string
	}{
		"no base64":         {agent.HistoryQuery{Page: agent.Page{Token: "%"}}, "page_token"},
		"no JSON":           {agent.HistoryQuery{Page: token(`{`)}, "page_token"},
		"another's token":   {agent.HistoryQuery{Page: token(`{"r":1,"offset":7}`)}, "page_token"},
		"no revision":       {agent.HistoryQuery{Page: token(`{"k":"x"}`)}, "page_token"},
		"negative revision": {agent.HistoryQuery{Page: token(`{"r":-1}`)}, "page_token"},
		"a NUL":             {agent.HistoryQuery{Page: token(`{"r":1,"n":"\u0000"}`)}, "page_token"},
		"a long token":      {agent.HistoryQuery{Page: agent.Page{Token: strings.Repeat("A", 1<<20)}}, "page_token"},
		"a NUL in a kind":   {agent.HistoryQuery{Kind: "\x00"}, "kind"},
		"a long tenant":     {agent.HistoryQuery{Tenant: strings.Repeat("x", 513)}, "tenant"},
		"a name of no text": {agent.HistoryQuery{Name: "\xff"}, "name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.CatalogHistory(t.Context(), test.query)
			requireCode(t, agent.CodeInvalid, err)
			require.Equal(t, test.field, agent.FailureOf(err).Field)
		})
	}
	require.Empty(t, b.history(agent.HistoryQuery{Page: token(`{"r":9223372036854775807}`)}).Entries)
}
