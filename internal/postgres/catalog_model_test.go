package postgres_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// catalogModel is a simple model of the catalog: maps, and a list of changes.
type catalogModel struct {
	revision, oldest int64
	documents        map[agent.DocumentKey]modelDocument
	artifacts        map[string]agent.Artifact
	trail            []string // newest first
}

type modelDocument struct {
	body     string // "": deleted
	revision int64
}

func compareKeys(x, y agent.DocumentKey) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Version, y.Version))
}

// commit applies a commit, or returns the code of the error with which the store has to refuse it.
func (m *catalogModel) commit(c *agent.CatalogCommit) agent.Code {
	switch {
	case len(c.Put)+len(c.Delete)+len(c.Publish) == 0:
		return agent.CodeInvalid
	case c.At != m.revision:
		return agent.CodeConflict
	}
	for _, k := range c.Delete {
		if m.documents[k].body == "" {
			return agent.CodeNotFound
		}
	}
	m.revision++
	lines := map[agent.DocumentKey][]string{}
	change := func(action string, k agent.DocumentKey, before, after string) {
		line := fmt.Sprintf("%d %s %s %s→%s", m.revision, action, k, before, after)
		lines[k] = slices.Insert(lines[k], 0, line) // updated or created after published, in the order of the page
	}
	for i := range c.Publish {
		a := c.Publish[i]
		change(agent.ActionPublished, agentKey(a.Agent), published(m.artifacts[a.Agent].Hash), published(a.Hash))
		a.Revision = m.revision
		m.artifacts[a.Agent] = a
	}
	for i := range c.Put {
		k, body, action := c.Put[i].DocumentKey, string(c.Put[i].Body), agent.ActionUpdated
		before := m.documents[k].body
		if before == "" {
			action = agent.ActionCreated
		}
		change(action, k, before, body)
		m.documents[k] = modelDocument{body, m.revision}
	}
	for _, k := range c.Delete {
		change(agent.ActionDeleted, k, m.documents[k].body, "")
		m.documents[k] = modelDocument{"", m.revision}
	}
	entries := []string{}
	for _, k := range slices.SortedFunc(maps.Keys(lines), func(x, y agent.DocumentKey) int { return compareKeys(y, x) }) {
		slices.SortFunc(lines[k], func(x, y string) int { return cmp.Compare(y, x) }) // by action, from the last
		entries = append(entries, lines[k]...)
	}
	m.trail = append(entries, m.trail...)
	return ""
}

func published(hash string) string {
	if hash == "" {
		return ""
	}
	short := hash[len("sha256:"):]
	return fmt.Sprintf(`{"compiled_artifact_hash":"%s","compiled_artifact_uri":"cas://%s","inputs":"inputs of %s"}`, hash, hash, short)
}

func (m *catalogModel) prune() (removed int) {
	for k, d := range m.documents {
		if d.body != "" {
			continue
		}
		delete(m.documents, k)
		removed++
		m.oldest = max(m.oldest, d.revision)
		if a, ok := m.artifacts[k.Name]; ok && k == agentKey(k.Name) && a.Revision < d.revision {
			delete(m.artifacts, k.Name)
		}
	}
	return removed
}

// state returns the documents and artifacts after a revision, with deleted documents if deleted is set.
func (m *catalogModel) state(after int64, deleted bool) (documents, artifacts []string) {
	documents, artifacts = []string{}, []string{}
	for _, k := range slices.SortedFunc(maps.Keys(m.documents), compareKeys) {
		if d := m.documents[k]; d.revision > after && (deleted || d.body != "") {
			documents = append(documents, fmt.Sprintf("%s %d %s", k, d.revision, d.body))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.artifacts)) {
		if a := m.artifacts[name]; a.Revision > after {
			artifacts = append(artifacts, fmt.Sprintf("%s %d %s", name, a.Revision, a.Hash))
		}
	}
	return documents, artifacts
}

func (m *catalogModel) check(t require.TestingT, s agent.CatalogState, after int64, deleted bool) {
	require.Equal(t, m.revision, s.Revision)
	require.Equal(t, m.oldest, s.Oldest)
	documents, artifacts := m.state(after, deleted)
	require.Equal(t, documents, outline(s.Documents))
	got := []string{}
	for _, a := range s.Artifacts {
		got = append(got, fmt.Sprintf("%s %d %s", a.Agent, a.Revision, a.Hash))
	}
	require.Equal(t, artifacts, got)
}

func drawCommit(t *rapid.T, m *catalogModel) agent.CatalogCommit {
	key := rapid.SampledFrom([]agent.DocumentKey{
		agentKey("a"), agentKey("b"), agentKey("A"),
		{Kind: agent.KindAgent, Tenant: agent.SharedTenant, Name: "a"},
		{Kind: agent.KindNode, Name: "a", Version: "1"},
		{Kind: agent.KindNode, Name: "a", Version: "2"},
	})
	c := agent.CatalogCommit{At: m.revision}
	if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
		c.At += rapid.Int64Range(-2, 2).Draw(t, "by")
	}
	for _, k := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID).Draw(t, "keys") {
		// Most deletions are possible, so that most commits are accepted.
		if rapid.Bool().Draw(t, "delete") && (m.documents[k].body != "" || rapid.IntRange(0, 9).Draw(t, "missing") == 0) {
			c.Delete = append(c.Delete, k)
			continue
		}
		c.Put = append(c.Put, put(k, rapid.SampledFrom([]string{`1`, `null`, `{"b":1.50,"a":"\u0000"}`}).Draw(t, "body")))
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "builtin"}), 0, 2, rapid.ID).Draw(t, "publish") {
		c.Publish = append(c.Publish, artifact(name, rapid.SampledFrom([]string{"11", "22"}).Draw(t, "hash")))
	}
	return c
}

func TestCatalogFollowsItsModel(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	rapid.Check(t, func(rt *rapid.T) {
		_, err := b.pool.Exec(t.Context(), `TRUNCATE catalog_documents, catalog_artifacts, catalog_history; UPDATE catalog_head SET revision = 0, oldest = 0`)
		require.NoError(rt, err)
		m := catalogModel{documents: map[agent.DocumentKey]modelDocument{}, artifacts: map[string]agent.Artifact{}}
		for range rapid.IntRange(1, 12).Draw(rt, "operations") {
			if rapid.IntRange(0, 9).Draw(rt, "prune") == 0 {
				removed, err := b.PruneCatalog(t.Context(), time.Now().Add(time.Hour))
				require.NoError(rt, err)
				require.Equal(rt, m.prune(), removed)
			}
			c := drawCommit(rt, &m)
			want := m.commit(&c)
			revision, err := b.CommitCatalog(t.Context(), c)
			require.Equal(rt, want, agent.CodeOf(err), "%v", err)
			if err == nil {
				require.Equal(rt, m.revision, revision)
			}
			after := rapid.Int64Range(0, m.revision+1).Draw(rt, "after")
			m.check(rt, b.since(after), after, true)
		}
		m.check(rt, b.load(), 0, false)
		got, q := []string{}, agent.HistoryQuery{Page: agent.Page{Size: rapid.IntRange(1, 20).Draw(rt, "page")}}
		for more := true; more; more = q.Token != "" {
			page := b.history(q)
			got, q.Token = append(got, trail(page.Entries)...), page.Next
		}
		require.Equal(rt, append([]string{}, m.trail...), got)
	})
}
