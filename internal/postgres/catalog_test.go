package postgres_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

var _ catalog.Store = (*postgres.Store)(nil)

func agentKey(name string) agent.DocumentKey {
	return agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: name}
}

func put(key agent.DocumentKey, body string) agent.Document {
	return agent.Document{DocumentKey: key, Body: json.RawMessage(body)}
}

func artifact(name, hash string) agent.Artifact {
	return agent.Artifact{
		Tenant: tenant, Agent: name, URI: "cas://sha256:" + hash, Hash: "sha256:" + hash, Inputs: "inputs of " + hash,
		CompiledAt: time.Date(2026, 8, 1, 12, 0, 0, 123456000, time.UTC),
	}
}

// commit commits a change to the newest revision.
func (b *bench) commit(c agent.CatalogCommit) int64 {
	b.t.Helper()
	c.At = b.load().Revision
	revision, err := b.CommitCatalog(b.t.Context(), c)
	require.NoError(b.t, err)
	require.Equal(b.t, c.At+1, revision)
	return revision
}

func (b *bench) load() agent.CatalogState {
	b.t.Helper()
	state, err := b.LoadCatalog(b.t.Context())
	require.NoError(b.t, err)
	return state
}

func (b *bench) since(revision int64) agent.CatalogState {
	b.t.Helper()
	state, err := b.CatalogSince(b.t.Context(), revision)
	require.NoError(b.t, err)
	return state
}

// outline returns documents as strings of key, revision and body.
func outline(documents []agent.Document) []string {
	lines := []string{}
	for i := range documents {
		d := &documents[i]
		lines = append(lines, fmt.Sprintf("%s %d %s", d.DocumentKey, d.Revision, d.Body))
	}
	return lines
}

func TestCatalogComesBackByteForByte(t *testing.T) {
	b := newBench(t, postgres.Config{})
	empty := b.load()
	require.Zero(t, empty.Revision+empty.Oldest)
	require.Empty(t, empty.Documents)
	require.Empty(t, empty.Artifacts)

	// JSON that jsonb would change or refuse, and keys in the order of their bytes.
	strange := `{"z":1.50,"a":"\u0000\ud800é","a":1e400,"b":[]}`
	keys := []agent.DocumentKey{
		{Kind: agent.KindAgent, Tenant: "*", Name: "a"},
		{Kind: agent.KindAgent, Tenant: "acme", Name: "B"},
		{Kind: agent.KindAgent, Tenant: "acme", Name: "a"},
		{Kind: agent.KindAgent, Tenant: "acme", Name: "a-b"},
		{Kind: agent.KindAgent, Tenant: "acme", Name: "é"},
		{Kind: agent.KindNode, Name: "agent", Version: "1"},
		{Kind: agent.KindNode, Name: "agent", Version: "10"},
		{Kind: agent.KindNode, Name: "agent", Version: "2"},
	}
	c := agent.CatalogCommit{By: "ops", Source: agent.SourceAPI, Comment: "first", Publish: []agent.Artifact{artifact("a", "11")}}
	for i := range keys {
		c.Put = append(c.Put, put(keys[len(keys)-1-i], strange))
	}
	before := time.Now()
	require.EqualValues(t, 1, b.commit(c))

	state := b.load()
	require.EqualValues(t, 1, state.Revision)
	require.Zero(t, state.Oldest)
	require.Len(t, state.Documents, len(keys))
	for i, d := range state.Documents {
		require.WithinRange(t, d.UpdatedAt, before.Add(-time.Second), time.Now().Add(time.Second))
		require.Equal(t, time.UTC, d.UpdatedAt.Location())
		d.UpdatedAt = time.Time{}
		require.Equal(t, agent.Document{
			DocumentKey: keys[i], Body: json.RawMessage(strange), Revision: 1, Source: agent.SourceAPI, UpdatedBy: "ops",
		}, d)
	}
	published := artifact("a", "11")
	published.Revision = 1
	require.Equal(t, []agent.Artifact{published}, state.Artifacts)
	require.Equal(t, state, b.since(0))
}

func TestCatalogSinceSaysWhatChanged(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("a"), `1`), put(agentKey("b"), `1`), put(agentKey("c"), `null`)}})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("b"), `2`)}, Delete: []agent.DocumentKey{agentKey("a")}})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("b"), `2`)}, Publish: []agent.Artifact{artifact("b", "22")}, By: "me"})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("d"), `4`)}})
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("d")}, By: "you", Source: agent.SourceFolder})

	require.Equal(t, []string{"AgentInstance acme/b 3 2", "AgentInstance acme/c 1 null"}, outline(b.load().Documents))
	for revision, want := range [][]string{
		{"AgentInstance acme/a 2 ", "AgentInstance acme/b 3 2", "AgentInstance acme/c 1 null", "AgentInstance acme/d 5 "},
		{"AgentInstance acme/a 2 ", "AgentInstance acme/b 3 2", "AgentInstance acme/d 5 "},
		{"AgentInstance acme/b 3 2", "AgentInstance acme/d 5 "},
		{"AgentInstance acme/d 5 "},
		{"AgentInstance acme/d 5 "},
		{},
		{},
	} {
		state := b.since(int64(revision))
		require.EqualValues(t, 5, state.Revision)
		require.Equal(t, want, outline(state.Documents), "since %d", revision)
		require.Equal(t, revision < 3, len(state.Artifacts) == 1, "since %d", revision)
	}
	gone := b.since(4).Documents[0]
	require.True(t, gone.Deleted)
	require.Nil(t, gone.Body)
	require.Equal(t, "you", gone.UpdatedBy)
	require.Equal(t, agent.SourceFolder, gone.Source)
}

func TestCommitRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(agent.CatalogCommit{
		Put: []agent.Document{put(agentKey("a"), `1`), put(agentKey("gone"), `1`)}, Publish: []agent.Artifact{artifact("a", "11")},
	})
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("gone")}})
	before, entries := b.load(), b.count("catalog_history")

	long := strings.Repeat("x", 513)
	many := make([]agent.Document, 20_001)
	large := make([]agent.Document, 65)
	for i := range large {
		large[i] = put(agentKey(fmt.Sprint(i)), `"`+strings.Repeat("x", 1<<20-2)+`"`)
	}
	puts := func(d ...agent.Document) agent.CatalogCommit { return agent.CatalogCommit{At: 2, Put: d} }
	deletes := func(k ...agent.DocumentKey) agent.CatalogCommit { return agent.CatalogCommit{At: 2, Delete: k} }
	publishes := func(edit func(*agent.Artifact)) agent.CatalogCommit {
		a := artifact("a", "22")
		edit(&a)
		return agent.CatalogCommit{At: 2, Publish: []agent.Artifact{artifact("b", "22"), a}}
	}
	x := put(agentKey("x"), `1`)
	tests := map[string]struct {
		commit agent.CatalogCommit
		want   agent.Code
		says   string
	}{
		"nothing":             {agent.CatalogCommit{At: 2, By: "me"}, agent.CodeInvalid, "nothing to commit"},
		"an older revision":   {agent.CatalogCommit{At: 1, Put: []agent.Document{x}}, agent.CodeConflict, "at revision 2"},
		"no revision":         {agent.CatalogCommit{Put: []agent.Document{x}}, agent.CodeConflict, "made for 0"},
		"a later revision":    {agent.CatalogCommit{At: 3, Put: []agent.Document{x}}, agent.CodeConflict, "made for 3"},
		"deleting nothing":    {agent.CatalogCommit{At: 2, Put: []agent.Document{x}, Delete: []agent.DocumentKey{agentKey("a"), agentKey("nobody")}}, agent.CodeNotFound, "delete[1]: there is no AgentInstance acme/nobody"},
		"deleting twice":      {deletes(agentKey("gone")), agent.CodeNotFound, "AgentInstance acme/gone"},
		"conflict first":      {agent.CatalogCommit{At: 1, Delete: []agent.DocumentKey{agentKey("nobody")}}, agent.CodeConflict, "revision 2"},
		"two of a put":        {puts(x, put(agentKey("y"), `1`), x), agent.CodeInvalid, "put[2].name: AgentInstance acme/x is given twice"},
		"two of a delete":     {deletes(agentKey("a"), agentKey("a")), agent.CodeInvalid, "delete[1].name: AgentInstance acme/a"},
		"put and delete":      {agent.CatalogCommit{At: 2, Put: []agent.Document{put(agentKey("a"), `1`)}, Delete: []agent.DocumentKey{agentKey("a")}}, agent.CodeInvalid, "delete[0].name"},
		"no kind":             {puts(put(agent.DocumentKey{Name: "x"}, `1`)), agent.CodeInvalid, "put[0].kind"},
		"no name":             {deletes(agent.DocumentKey{Kind: agent.KindAgent}), agent.CodeInvalid, "delete[0].name"},
		"a NUL in a name":     {puts(x, put(agentKey("\x00"), `1`)), agent.CodeInvalid, "put[1].name"},
		"a name of no text":   {puts(put(agentKey("\xff"), `1`)), agent.CodeInvalid, "put[0].name"},
		"a long name":         {puts(put(agentKey(long), `1`)), agent.CodeInvalid, "put[0].name"},
		"a long kind":         {puts(put(agent.DocumentKey{Kind: agent.Kind(long), Name: "x"}, `1`)), agent.CodeInvalid, "put[0].kind"},
		"a long tenant":       {puts(put(agent.DocumentKey{Kind: agent.KindAgent, Tenant: long, Name: "x"}, `1`)), agent.CodeInvalid, "put[0].tenant"},
		"a long version":      {puts(put(agent.DocumentKey{Kind: agent.KindNode, Name: "x", Version: long}, `1`)), agent.CodeInvalid, "put[0].version"},
		"no body":             {puts(put(agentKey("x"), ``)), agent.CodeInvalid, "put[0].body"},
		"a body of no JSON":   {puts(x, put(agentKey("y"), `{`)), agent.CodeInvalid, "put[1].body"},
		"a body of no text":   {puts(put(agentKey("y"), "\"\xff\"")), agent.CodeInvalid, "put[0].body"},
		"a large body":        {puts(put(agentKey("y"), `"`+strings.Repeat("x", 1<<20-1)+`"`)), agent.CodeInvalid, "put[0].body"},
		"many documents":      {puts(many...), agent.CodeInvalid, "put: 20001 documents"},
		"many deletions":      {agent.CatalogCommit{At: 2, Put: many[:1], Delete: make([]agent.DocumentKey, 20_000)}, agent.CodeInvalid, "put: 20001 documents"},
		"many artifacts":      {agent.CatalogCommit{At: 2, Publish: make([]agent.Artifact, 20_001)}, agent.CodeInvalid, "publish: 20001 artifacts"},
		"large all together":  {puts(large...), agent.CodeInvalid, "put: more than"},
		"a long comment":      {agent.CatalogCommit{At: 2, Put: []agent.Document{x}, Comment: strings.Repeat(long, 4)}, agent.CodeInvalid, "comment"},
		"a NUL in who":        {agent.CatalogCommit{At: 2, Put: []agent.Document{x}, By: "\x00"}, agent.CodeInvalid, "by"},
		"a source of no text": {agent.CatalogCommit{At: 2, Put: []agent.Document{x}, Source: "\xff"}, agent.CodeInvalid, "source"},
		"nobody's artifact":   {publishes(func(a *agent.Artifact) { a.Agent = "" }), agent.CodeInvalid, "publish[1].agent"},
		"no tenant's":         {publishes(func(a *agent.Artifact) { a.Tenant = "" }), agent.CodeInvalid, "publish[1].tenant"},
		"nowhere":             {publishes(func(a *agent.Artifact) { a.URI = "" }), agent.CodeInvalid, "publish[1].compiled_artifact_uri"},
		"no hash":             {publishes(func(a *agent.Artifact) { a.Hash = "" }), agent.CodeInvalid, "publish[1].compiled_artifact_hash"},
		"inputs of no text":   {publishes(func(a *agent.Artifact) { a.Inputs = "\xff" }), agent.CodeInvalid, "publish[1].inputs"},
		"two artifacts":       {publishes(func(a *agent.Artifact) { a.Agent = "b" }), agent.CodeInvalid, "publish[1].agent: acme/b is given twice"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			revision, err := b.CommitCatalog(t.Context(), test.commit)
			requireCode(t, test.want, err)
			require.ErrorContains(t, err, test.says)
			require.Zero(t, revision)
		})
	}
	require.Equal(t, before, b.load())
	require.Equal(t, entries, b.count("catalog_history"))
}

func TestLargestCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	c := agent.CatalogCommit{Comment: strings.Repeat("c", 2<<10)}
	for i := range 20_000 {
		c.Put = append(c.Put, put(agentKey(fmt.Sprintf("a%05d", i)), fmt.Sprint(i)))
		c.Publish = append(c.Publish, artifact(fmt.Sprintf("a%05d", i), "11"))
	}
	// Names that do not compress, so that the index entries have the largest size.
	name := func(n int) string { return strings.Repeat(newID()+newID(), 8)[:n] }
	longest := agent.DocumentKey{Kind: agent.Kind("Z" + name(511)), Tenant: name(512), Name: name(512), Version: name(512)}
	c.Put[0] = put(longest, `"`+strings.Repeat("x", 1<<20-2)+`"`)
	b.commit(c)
	state := b.load()
	require.Len(t, state.Documents, 20_000)
	require.Len(t, state.Artifacts, 20_000)
	require.Equal(t, 40_000, b.count("catalog_history"))
	require.Equal(t, "19999", string(state.Documents[19_998].Body))

	c = agent.CatalogCommit{}
	for i := range state.Documents {
		c.Delete = append(c.Delete, state.Documents[i].DocumentKey)
	}
	b.commit(c)
	require.Empty(t, b.load().Documents)
	require.Len(t, b.since(1).Documents, 20_000)
}

func TestPruneCatalog(t *testing.T) {
	b := newBench(t, postgres.Config{})
	prune := func(before time.Time) int {
		removed, err := b.PruneCatalog(t.Context(), before)
		require.NoError(t, err)
		return removed
	}
	node := agent.DocumentKey{Kind: agent.KindNode, Name: "b", Version: "1"}
	b.commit(agent.CatalogCommit{
		Put:     []agent.Document{put(agentKey("a"), `1`), put(agentKey("b"), `1`), put(agentKey("c"), `1`), put(node, `1`)},
		Publish: []agent.Artifact{artifact("a", "11"), artifact("b", "11"), artifact("c", "11")},
	})
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("a")}})
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{node, agentKey("c")}})
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("c"), `4`)}})
	deleted := b.since(3 - 1).Documents[1].UpdatedAt
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("b")}})
	b.commit(agent.CatalogCommit{Publish: []agent.Artifact{artifact("b", "66")}}) // an agent of this name may be built in

	require.Zero(t, prune(deleted.Add(-time.Hour)))
	require.Zero(t, b.load().Oldest)

	require.Equal(t, 2, prune(b.since(4).Documents[0].UpdatedAt), "the time itself is excluded")
	state := b.since(3)
	require.EqualValues(t, 3, state.Oldest, "changes after the newest removed tombstone are complete")
	require.EqualValues(t, 6, state.Revision)
	require.Equal(t, []string{"AgentInstance acme/b 5 ", "AgentInstance acme/c 4 4"}, outline(state.Documents))
	names := func() (names []string) {
		for _, a := range b.load().Artifacts {
			names = append(names, a.Agent)
		}
		return names
	}
	require.Equal(t, []string{"b", "c"}, names(), "the published plan is removed with the agent")

	require.Equal(t, 1, prune(time.Now().Add(time.Hour)))
	require.EqualValues(t, 5, b.load().Oldest)
	require.Equal(t, []string{"b", "c"}, names(), "published after the agent was deleted")
	require.Equal(t, []string{"AgentInstance acme/c 4 4"}, outline(b.load().Documents))
	require.Zero(t, prune(time.Now().Add(time.Hour)))
	require.EqualValues(t, 5, b.load().Oldest)
	require.Equal(t, 13, b.count("catalog_history"), "the history is not pruned")

	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("a"), `7`)}})
	require.Equal(t, []string{"AgentInstance acme/a 7 7"}, outline(b.since(6).Documents))
}

func (b *bench) history(q agent.HistoryQuery) agent.HistoryPage {
	b.t.Helper()
	page, err := b.CatalogHistory(b.t.Context(), q)
	require.NoError(b.t, err)
	return page
}

// trail returns entries as strings of revision, action, key, before and after.
func trail(entries []agent.AuditEntry) []string {
	lines := []string{}
	for i := range entries {
		e := &entries[i]
		lines = append(lines, fmt.Sprintf("%d %s %s %s→%s", e.Revision, e.Action, e.DocumentKey, e.Before, e.After))
	}
	return lines
}

func TestHistory(t *testing.T) {
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
		require.Equal(t, page.Entries[6].At, e.At, "all entries of a commit have the same time")
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
			if len(got) < 20 { // a newer entry is on no later page
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
	t.Parallel()
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
	require.Equal(t, []int{4, 6, 2}, sizes, "at most 8 MiB; six entries have a before")
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
			requireFault(t, agent.CodeInvalid, test.field, err)
		})
	}
	require.Empty(t, b.history(agent.HistoryQuery{Page: token(`{"r":9223372036854775807}`)}).Entries)
}
