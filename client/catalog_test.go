package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func manifestOf(text string) []agent.ManifestFile {
	return []agent.ManifestFile{{Name: "a.yaml", Data: []byte(text)}}
}

const clerk = "kind: AgentInstance\nname: clerk\nnode_id: agent\nnode_version: \"1\"\nlabels: {team: a b&c}\n"

func TestCatalogRoundTrips(t *testing.T) {
	documents := &gatewaytest.Catalog{}
	c := serveCatalog(t, gatewaytest.New(), documents, func(c *client.Config) { c.Tenant = "acme" })
	ctx := t.Context()
	text := strings.Replace(clerk, "name:", "tenant: acme\nname:", 1)
	r, err := c.Apply(ctx, agent.ApplyRequest{Files: manifestOf(text + "---\nkind: NodeDefinition\nnode_id: agent\nversion: \"1\"\ntype: agent\n"), By: "ann", Comment: "why"})
	require.NoError(t, err)
	require.Len(t, r.Changes, 2)
	require.Equal(t, "a.yaml", documents.Applied()[0].Files[0].Name)
	require.Equal(t, text, string(documents.Applied()[0].Files[0].Data[:len(text)]))

	agents, err := c.ListAgents(ctx, agent.AgentQuery{Labels: map[string]string{"team": "a b&c"}, NodeID: "agent", Page: agent.Page{Size: 1}})
	require.NoError(t, err)
	require.Equal(t, "clerk", agents.Agents[0].Name)
	agents, err = c.ListAgents(ctx, agent.AgentQuery{Tool: "none"})
	require.NoError(t, err)
	require.Empty(t, agents.Agents)
	nodes, err := c.ListNodes(ctx, agent.NodeQuery{Type: agent.NodeAgent, NodeID: "agent"})
	require.NoError(t, err)
	require.Len(t, nodes.Nodes, 1)
	nodes, err = c.ListNodes(ctx, agent.NodeQuery{Labels: map[string]string{"no": "such"}})
	require.NoError(t, err)
	require.Empty(t, nodes.Nodes)

	page, err := c.Documents(ctx, agent.DocumentQuery{Kind: agent.KindAgent, Name: "clerk", Source: "api"})
	require.NoError(t, err)
	require.Len(t, page.Documents, 1)
	page, err = c.Documents(ctx, agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: 1}})
	require.NoError(t, err)
	next, err := c.Documents(ctx, agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: 1, Token: page.Next}})
	require.NoError(t, err)
	require.NotEqual(t, page.Documents[0].DocumentKey, next.Documents[0].DocumentKey)
	page, err = c.Documents(ctx, agent.DocumentQuery{Kind: agent.KindNode, Version: "2"})
	require.NoError(t, err)
	require.Empty(t, page.Documents)
	d, err := c.Document(ctx, agent.DocumentKey{Kind: agent.KindNode, Name: "agent", Version: "1"})
	require.NoError(t, err)
	require.Equal(t, "1", d.Version)

	info, err := c.Publish(ctx, "", "clerk", "ann")
	require.NoError(t, err)
	require.NotNil(t, info.Artifact)
	status, err := c.CatalogStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(3), status.Revision)

	gone, err := c.Delete(ctx, client.Deletion{Key: d.DocumentKey, DryRun: true, By: "bob", Comment: "x", BaseRevision: 2})
	require.NoError(t, err)
	require.Equal(t, agent.ActionDeleted, gone.Changes[0].Action)
	asked := documents.Applied()[1]
	require.Equal(t, "bob x 2 true", fmt.Sprint(asked.By, " ", asked.Comment, " ", asked.BaseRevision, " ", asked.DryRun))
	_, err = c.Apply(ctx, agent.ApplyRequest{Delete: []agent.DocumentKey{{Kind: agent.KindAgent, Name: "clerk"}}, BaseRevision: 1})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	_, err = c.Delete(ctx, client.Deletion{Key: agent.DocumentKey{Kind: agent.KindAgent, Name: "clerk"}})
	require.NoError(t, err)
	history, err := c.History(ctx, agent.HistoryQuery{Kind: agent.KindAgent, Name: "clerk"})
	require.NoError(t, err)
	require.Len(t, history.Entries, 2)
	_, err = c.Document(ctx, agent.DocumentKey{Kind: agent.KindAgent, Name: "clerk"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func TestCatalogForEveryTenant(t *testing.T) {
	documents := &gatewaytest.Catalog{AgentList: []agent.AgentInfo{{Name: "a", Tenant: "acme"}, {Name: "b"}, {Name: "c", Tenant: agent.SharedTenant}}}
	c := serveCatalog(t, gatewaytest.New(), documents, func(c *client.Config) { c.Tenant = agent.SharedTenant })
	for tenant, want := range map[string]int{"": 0, agent.SharedTenant: 3, "acme": 2, "default": 2} {
		page, err := c.ListAgents(t.Context(), agent.AgentQuery{Tenant: tenant})
		if tenant == "" {
			require.ErrorContains(t, err, "tenant", "an agent of every tenant is nobody's to call")
			continue
		}
		require.NoError(t, err)
		require.Len(t, page.Agents, want, tenant)
	}
	_, err := c.ListNodes(t.Context(), agent.NodeQuery{})
	require.NoError(t, err, "nodes belong to nobody")
	_, err = c.CatalogStatus(t.Context())
	require.NoError(t, err)
	_, err = c.Document(t.Context(), agent.DocumentKey{Kind: agent.KindNode, Name: "none"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func TestFaultsArrive(t *testing.T) {
	faults := agent.Faults{{File: "a.yaml", Line: 3, Column: 7, Document: "AgentInstance default/clerk", Path: "models[0]", Message: "no such"}, {Message: "two"}}
	documents := &gatewaytest.Catalog{Refuse: func(agent.ApplyRequest) error { return faults.Err() }}
	c := serveCatalog(t, gatewaytest.New(), documents, nil)
	_, err := c.Apply(t.Context(), agent.ApplyRequest{Files: manifestOf(clerk)})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	var got agent.Faults
	require.ErrorAs(t, err, &got)
	require.Equal(t, faults, got)
	require.Equal(t, 1, strings.Count(err.Error(), "no such"), err)

	_, err = c.Apply(t.Context(), agent.ApplyRequest{Files: manifestOf("\xff")})
	require.ErrorContains(t, err, "a.yaml: is not UTF-8")
	require.Len(t, documents.Applied(), 1, "what JSON cannot hold is not sent")
}

func TestNamesLeadNowhereElse(t *testing.T) {
	_, c := serve(t, nil)
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Document(t.Context(), agent.DocumentKey{Kind: agent.KindAgent, Name: name})
		require.ErrorContains(t, err, "is no name", name)
	}
	_, err := c.Document(t.Context(), agent.DocumentKey{Kind: agent.KindAgent, Name: "../../agents"})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func TestPlans(t *testing.T) {
	body := []byte(`{"agent":"clerk"}`)
	sum := sha256.Sum256(body)
	hash := "sha256:" + hex.EncodeToString(sum[:])
	other := "sha256:" + strings.Repeat("0", 64)
	documents := &gatewaytest.Catalog{
		AgentList: []agent.AgentInfo{{Name: "clerk", PlanHash: hash}, {Name: "forged", PlanHash: other}},
		Plans:     map[string][]byte{hash: body, other: body},
	}
	c := serveCatalog(t, gatewaytest.New(), documents, nil)
	got, err := c.Plan(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, body, got)
	got, of, err := c.AgentPlan(t.Context(), "default", "clerk")
	require.NoError(t, err)
	require.Equal(t, body, got)
	require.Equal(t, hash, of)
	for _, name := range []string{"sha256:1", strings.Replace(hash, hash[7:8], "z", 1)} {
		_, err = c.Plan(t.Context(), name)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), name)
	}
	_, err = c.Plan(t.Context(), other)
	require.ErrorContains(t, err, "its hash is")
	_, _, err = c.AgentPlan(t.Context(), "", "forged")
	require.ErrorContains(t, err, "its hash is")
	_, _, err = c.AgentPlan(t.Context(), "", "nobody")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(silent.Close)
	c = dial(t, silent.URL, nil)
	_, err = c.Plan(t.Context(), other)
	require.ErrorContains(t, err, "instead of "+other, "also where the server does not say what it sends")
}

func TestRoute(t *testing.T) {
	var asked agent.RouteContext
	documents := &gatewaytest.Catalog{Decide: func(r agent.RouteContext) (agent.RouteDecision, error) {
		asked = r
		return agent.RouteDecision{Agent: "clerk", Reason: agent.RouteRuled, Rules: []agent.RuleVerdict{{Rule: "one", Chosen: true}}}, nil
	}}
	c := serveCatalog(t, gatewaytest.New(), documents, func(c *client.Config) { c.Tenant = "acme" })
	want := agent.RouteContext{Agent: "a", SessionID: "s", Channel: "cli", InvocationContext: agent.InvocationContext{
		UserID: "u", UserRole: "r", UIPage: "/p", Flags: map[string]any{"f": true}, Metadata: map[string]any{"m": "x"},
	}}
	d, err := c.Route(t.Context(), want)
	require.NoError(t, err)
	require.Equal(t, "one", d.Rules[0].Rule)
	want.Tenant = "acme"
	require.Equal(t, want, asked)
}

// watch collects the events of a catalog until enough says so.
func watch(ctx context.Context, c *client.Client, q agent.WatchQuery, enough func(agent.CatalogEvent) bool) (events []agent.CatalogEvent, err error) {
	for e, err := range c.WatchCatalog(ctx, q) {
		if err != nil {
			return events, err
		}
		if events = append(events, e); enough(e) {
			break
		}
	}
	return events, nil
}

func TestWatchCatalog(t *testing.T) {
	documents := &gatewaytest.Catalog{AgentList: []agent.AgentInfo{{Name: "a"}, {Name: "x", Tenant: "acme"}}}
	c := serveCatalog(t, gatewaytest.New(), documents, nil)
	next := int64(2)
	events, err := watch(t.Context(), c, agent.WatchQuery{}, func(e agent.CatalogEvent) bool {
		if next <= 3 {
			documents.Change(agent.CatalogEvent{Agents: []agent.AgentInfo{{Name: fmt.Sprint("new", next)}}})
			next++
		}
		return e.Revision == 3
	})
	require.NoError(t, err)
	require.True(t, events[0].Snapshot)
	require.Len(t, events[0].Agents, 1)
	require.False(t, events[1].Snapshot)
	require.Eventually(t, func() bool { return documents.Watchers() == 0 }, 5*time.Second, time.Millisecond, "a consumer may stop at any time")

	last := func(e agent.CatalogEvent) bool { return e.Revision == 3 }
	events, err = watch(t.Context(), c, agent.WatchQuery{After: 2, Tenant: agent.SharedTenant}, last)
	require.NoError(t, err)
	require.Equal(t, "new3", events[0].Agents[0].Name)
	documents.Forget(3)
	events, err = watch(t.Context(), c, agent.WatchQuery{After: 1}, last)
	require.NoError(t, err)
	require.True(t, events[0].Snapshot)

	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = watch(ctx, c, agent.WatchQuery{}, func(agent.CatalogEvent) bool { cancel(stop); return false })
	require.ErrorIs(t, err, stop)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestWatchCatalogResumes(t *testing.T) {
	event := func(e agent.CatalogEvent) string {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		return fmt.Sprintf("id: %d\nevent: catalog\ndata: %s\n\n", e.Revision, data)
	}
	snapshot := func(revision int64) string { return event(agent.CatalogEvent{Revision: revision, Snapshot: true}) }
	delta := func(revision int64) string { return event(agent.CatalogEvent{Revision: revision}) }
	s, calls := cutter(t,
		"after 0|"+snapshot(5)+delta(6)[:20],
		"after 5|503!",
		"after 5|"+delta(5)+delta(7)+":silent\n",
		"after 7|event: error\ndata: {\"error\":{\"type\":\"unavailable\"}}\n\n",
		"after 7|"+snapshot(3), // another server, which knows less
		"after 3|"+delta(4)+delta(9),
	)
	c := dial(t, s.URL, func(c *client.Config) { c.IdleTimeout = 300 * time.Millisecond; c.Patience = time.Minute })
	events, err := watch(t.Context(), c, agent.WatchQuery{}, func(e agent.CatalogEvent) bool { return e.Revision == 9 })
	require.NoError(t, err)
	var got []int64
	for _, e := range events {
		got = append(got, e.Revision)
	}
	require.Equal(t, []int64{5, 7, 3, 4, 9}, got)
	require.Equal(t, int32(6), calls.Load())

	s, _ = cutter(t, "after 0|event: error\ndata: {\"error\":{\"type\":\"denied\",\"message\":\"not yours\"}}\n\n")
	_, err = watch(t.Context(), dial(t, s.URL, nil), agent.WatchQuery{}, func(agent.CatalogEvent) bool { return true })
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}
