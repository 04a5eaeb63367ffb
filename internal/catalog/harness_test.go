package catalog_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/turnstone-run/turnstone/agent"
	shipped "github.com/turnstone-run/turnstone/catalog"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/routing"
	"github.com/turnstone-run/turnstone/internal/secret"
)

// memoryStore is a store in memory. The tests of the real store are in internal/postgres.
type memoryStore struct {
	mu        sync.Mutex
	revision  int64
	oldest    int64
	docs      map[agent.DocumentKey]agent.Document
	artifacts []agent.Artifact
	history   []agent.AuditEntry
	wakes     []func()
	failure   error  // the error of every call
	before    func() // called before each commit
}

func newMemoryStore() *memoryStore { return &memoryStore{docs: map[agent.DocumentKey]agent.Document{}} }

func (m *memoryStore) LoadCatalog(ctx context.Context) (agent.CatalogState, error) {
	s, err := m.CatalogSince(ctx, 0)
	s.Documents = slices.DeleteFunc(s.Documents, func(d agent.Document) bool { return d.Deleted })
	return s, err
}

func (m *memoryStore) CatalogSince(_ context.Context, revision int64) (agent.CatalogState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := agent.CatalogState{Revision: m.revision, Oldest: m.oldest}
	for _, d := range m.docs {
		if d.Revision > revision {
			d.Body = slices.Clone(d.Body) // a database returns a copy as well
			s.Documents = append(s.Documents, d)
		}
	}
	for _, a := range m.artifacts {
		if a.Revision > revision {
			s.Artifacts = append(s.Artifacts, a)
		}
	}
	return s, m.failure
}

func (m *memoryStore) CommitCatalog(_ context.Context, c agent.CatalogCommit) (int64, error) {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	if m.failure != nil {
		defer m.mu.Unlock()
		return 0, m.failure
	}
	if c.At != m.revision {
		defer m.mu.Unlock()
		return 0, agent.Errorf(agent.CodeConflict, "commit", "at %d, not %d", m.revision, c.At)
	}
	m.revision++
	for _, d := range c.Put {
		d.Revision, d.Source, d.UpdatedBy, d.UpdatedAt = m.revision, c.Source, c.By, time.Now()
		m.docs[d.DocumentKey] = d
		m.history = append(m.history, agent.AuditEntry{Revision: m.revision, By: c.By, DocumentChange: agent.DocumentChange{DocumentKey: d.DocumentKey, After: d.Body}})
	}
	for _, k := range c.Delete {
		m.docs[k] = agent.Document{DocumentKey: k, Revision: m.revision, Deleted: true}
	}
	for _, a := range c.Publish {
		a.Revision = m.revision
		m.artifacts = slices.DeleteFunc(m.artifacts, func(o agent.Artifact) bool { return o.Tenant == a.Tenant && o.Agent == a.Agent })
		m.artifacts = append(m.artifacts, a)
	}
	revision, wakes := m.revision, slices.Clone(m.wakes)
	m.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	return revision, nil
}

func (m *memoryStore) CatalogHistory(context.Context, agent.HistoryQuery) (agent.HistoryPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return agent.HistoryPage{Entries: slices.Clone(m.history)}, nil
}

func (m *memoryStore) ListenCatalog(ctx context.Context, wake func()) {
	woken := make(chan struct{}, 1)
	m.mu.Lock()
	m.wakes = append(m.wakes, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	m.mu.Unlock()
	wake()
	for {
		select {
		case <-woken:
			wake()
		case <-ctx.Done():
			return
		}
	}
}

// fakePlans is a plan store in memory that counts its calls.
type fakePlans struct {
	mu    sync.Mutex
	body  map[string][]byte
	saves int
	reads int
}

func (p *fakePlans) SavePlan(_ context.Context, body []byte) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256(body)
	hash := "sha256:" + hex.EncodeToString(sum[:])
	p.body[hash] = body
	p.saves++
	return "cas://" + hash, nil
}

func (p *fakePlans) PlanBytes(_ context.Context, hash string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	b, ok := p.body[hash]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no plan %s", hash)
	}
	return b, nil
}

type routes struct{ *routing.Compiler }

func (r routes) Router(own, shared []*agent.RouteTable) (catalog.Router, error) {
	return r.Engine(own, shared)
}

// testTools are five toolkits: "pipeline" with the parameter max_rows, "mail", and three that are granted implicitly only.
type testTools struct{}

func (testTools) Kits() []string { return []string{"pipeline", "delegate", "mail", "todo", "research"} }

var object = json.RawMessage(`{"type":"object"}`)

// kitSpecs are the tools by toolkit; only some tests list or name the last three toolkits.
var kitSpecs = map[string][]agent.ToolSpec{
	"pipeline":   {{Name: "execute_pipeline", Description: "Runs steps.", Parameters: object}},
	"mail":       {{Name: "send", Parameters: object}, {Name: "search", Parameters: object, InherentlySafe: true}},
	"delegate":   {{Name: "delegate_to_agent", Description: "Hands work over.", Parameters: object}},
	"research":   {{Name: "search_research", Parameters: object, InherentlySafe: true}},
	"todo":       {{Name: "write_todos", Parameters: object, InherentlySafe: true}},
	"toolsearch": {{Name: "search_tools", Description: "Finds tools.", Parameters: object, InherentlySafe: true, RevealsTools: true}},
	"remote":     {{Name: "ping", Parameters: object}},
	"clock":      {{Name: "clock", Parameters: object}},
}

func (testTools) Specs(kit string) ([]agent.ToolSpec, error) {
	specs, ok := kitSpecs[kit]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "this server has no toolkit %q", kit)
	}
	return slices.Clone(specs), nil
}

func (testTools) Dynamic(kit string) bool { return kit == "remote" }

func (testTools) Single(kit string) bool { return kit == "clock" }

func (testTools) OnRequest(kit string) bool {
	return kit == "delegate" || kit == "todo" || kit == "research"
}

func (testTools) Properties(kit string) json.RawMessage {
	if kit == "pipeline" {
		return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"max_rows":{"type":"integer","minimum":1,"default":1000}}}`)
	}
	return nil
}

type testMiddleware struct{}

func (testMiddleware) Added() []string { return []string{"house"} }

// Check also requires a tool to write todos, like a middleware that checks the tools of a plan.
func (testMiddleware) Check(m agent.PlanMiddleware, p *agent.Plan) error {
	switch {
	case m.Name == "todo" && p != nil:
		if _, ok := p.Tool("write_todos"); !ok {
			return agent.Invalid("", "the agent has no tool write_todos")
		}
	case m.Name != "model_retry" && m.Name != "house" && m.Name != "todo":
		return agent.Invalid("name", "there is no middleware %q", m.Name)
	case strings.Contains(string(m.Options), "bad"):
		return agent.Invalid("options.bad", "unknown field")
	}
	return nil
}

func (testMiddleware) Grants(m agent.PlanMiddleware) []agent.ToolGrant {
	if m.Name != "todo" {
		return nil
	}
	return []agent.ToolGrant{{Toolkit: "todo", Approval: agent.ApproveNever}}
}

// testModels claims the models of the provider "offline" by name.
type testModels struct{}

func (testModels) Capabilities(m agent.PlanModel) (agent.Capabilities, error) {
	switch m.Model {
	case "alone":
		return agent.Capabilities{InvokesTools: true}, nil
	case "away":
		return agent.Capabilities{InvokesTools: true}, agent.Errorf(agent.CodeUnavailable, "", "no key")
	}
	return agent.Capabilities{}, nil
}

// testSecrets are the secrets that the tenants of the tests may use.
func testSecrets(t testing.TB) *secret.Resolver {
	t.Helper()
	r, err := secret.New(secret.Config{AllowEnv: []string{"*", "acme=ACME_*"}})
	require.NoError(t, err)
	return r
}

// publicEgress returns an HTTP client that connects to public addresses only.
func publicEgress(t testing.TB) *egress.Client {
	t.Helper()
	web, err := egress.New(egress.Config{})
	require.NoError(t, err)
	return web
}

// world is a registry and its dependencies.
type world struct {
	*catalog.Registry
	t       testing.TB
	store   *memoryStore
	plans   *fakePlans
	metrics *prometheus.Registry
}

func newWorld(t testing.TB, change ...func(*catalog.Config)) *world {
	t.Helper()
	w := &world{t: t, store: newMemoryStore(), plans: &fakePlans{body: map[string][]byte{}}}
	w.Registry = w.another(change...)
	return w
}

// another returns a registry of another process on the same store.
func (w *world) another(change ...func(*catalog.Config)) *catalog.Registry {
	w.t.Helper()
	rules, err := routing.New()
	require.NoError(w.t, err)
	files, err := shipped.Files()
	require.NoError(w.t, err)
	w.metrics = prometheus.NewRegistry()
	cfg := catalog.Config{
		Store: w.store, Plans: w.plans, Routes: routes{rules}, Shipped: files, Metrics: w.metrics,
		Parts: &catalog.Parts{
			Tools: testTools{}, Middleware: testMiddleware{}, Secrets: testSecrets(w.t), Addresses: publicEgress(w.t), Claims: testModels{}, Limits: agent.Limits{ModelCalls: 25, ToolCalls: 50},
			Models: []catalog.ConfiguredModel{{Profile: agent.ModelProfile{Name: "default", Provider: "offline", Model: "m"}, Entry: "offline"}},
		},
	}
	if t, ok := w.t.(*testing.T); ok {
		cfg.Logger = zaptest.NewLogger(t)
	}
	for _, c := range change {
		c(&cfg)
	}
	r, err := catalog.New(cfg)
	require.NoError(w.t, err)
	require.NoError(w.t, r.Start(w.t.Context()))
	return r
}

// apply applies documents and requires that they are accepted.
func (w *world) apply(yaml string) agent.ApplyResult {
	w.t.Helper()
	out, err := w.try(yaml)
	require.NoError(w.t, err)
	return out
}

func (w *world) try(yaml string, change ...func(*agent.ApplyRequest)) (agent.ApplyResult, error) {
	req := agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "test.yaml", Data: []byte(yaml)}}, By: "tester"}
	for _, c := range change {
		c(&req)
	}
	return w.Apply(w.t.Context(), req)
}

// plan returns the current plan of an agent.
func (w *world) plan(tenant, name string) agent.Plan {
	w.t.Helper()
	p, _, err := w.Resolve(w.t.Context(), tenant, name)
	require.NoError(w.t, err)
	return p
}

// agentDoc returns a document of an agent of the shipped node.
func agentDoc(tenant, name, more string) string {
	return fmt.Sprintf("kind: AgentInstance\ntenant: %q\nname: %s\nnode_id: agent\nnode_version: \"1\"\nparameters: {system_message: You are %s.}\n%s\n---\n",
		cmp.Or(tenant, "default"), name, name, strings.TrimSpace(more))
}

// requireNoAgent requires that a tenant sees no agent of a name.
func (w *world) requireNoAgent(tenant, name string, message ...any) {
	w.t.Helper()
	_, _, err := w.Resolve(w.t.Context(), tenant, name)
	require.Equal(w.t, agent.CodeNotFound, agent.CodeOf(err), message...)
}

// delete deletes documents.
func (w *world) delete(keys ...agent.DocumentKey) error {
	_, err := w.Apply(w.t.Context(), agent.ApplyRequest{Delete: keys})
	return err
}

// agentKey returns the key of an agent document.
func agentKey(tenant, name string) agent.DocumentKey {
	return agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: name}
}
