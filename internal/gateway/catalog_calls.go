package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of requests about the catalog.
const (
	defaultPage  = 100
	maxPageSize  = 1000
	maxToken     = 1024 // of a page
	maxLabels    = 16
	maxText      = 256 // of a filter or a name
	maxComment   = 4096
	maxManifests = 1000
	maxDeletes   = 1000
)

var hashPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// catalogTenant returns the tenant that a call about the catalog names: empty is the caller's own. Only credentials of every tenant may name
// [agent.SharedTenant].
func (c identity) catalogTenant(named string) (string, error) {
	switch {
	case named == "":
		return c.ownTenant(), nil
	case named == agent.SharedTenant && !c.isOfOneTenant():
		return named, nil
	}
	if err := c.checkTenant(named, "tenant"); err != nil {
		return "", err
	}
	caller, err := c.inTenant(named)
	return caller.tenant, err
}

// listTenant is catalogTenant for lists of documents. It is empty for documents of every tenant and for NodeDefinitions, which have none.
func (c identity) listTenant(kind agent.Kind, named string) (string, error) {
	tenant, err := c.catalogTenant(named)
	if tenant == agent.SharedTenant || kind == agent.KindNode {
		tenant = ""
	}
	return tenant, err
}

// scopeName returns the name of a document in scopes.
func scopeName(k agent.DocumentKey) string { return string(k.Kind) + "/" + k.Name }

// documentKey checks the key of one document and sets its tenant. Every tenant sees shared documents.
func (c identity) documentKey(k agent.DocumentKey) (agent.DocumentKey, error) {
	if err := checkKind(k.Kind); err != nil {
		return k, err
	}
	if !agent.ValidName(k.Name) {
		return k, agent.Errorf(agent.CodeNotFound, "", "there is no %s %.140q", k.Kind, k.Name)
	}
	if k.Kind == agent.KindNode {
		k.Tenant = ""
		return k, checkName("version", k.Version)
	}
	if k.Version != "" {
		return k, agent.Invalid("version", "is for a %s alone", agent.KindNode)
	}
	if k.Tenant == agent.SharedTenant {
		return k, nil
	}
	var err error
	k.Tenant, err = c.catalogTenant(k.Tenant)
	return k, err
}

func (g *Gateway) listNodes(ctx context.Context, labels string, q agent.NodeQuery) (agent.NodePage, error) {
	switch q.Type {
	case "", agent.NodeAgent, agent.NodeTool, agent.NodeToolkit:
	default:
		return agent.NodePage{}, agent.Invalid("type", "want agent, tool or toolkit, got %.60q", q.Type)
	}
	if err := cmp.Or(checkName("node_id", q.NodeID), checkLabels(labels, q.Labels)); err != nil {
		return agent.NodePage{}, err
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	return g.cfg.Agents.ListNodes(ctx, q)
}

// listAgents lists agents; node and labels are the names of these filters.
func (g *Gateway) listAgents(ctx context.Context, caller identity, node, labels string, q agent.AgentQuery) (agent.AgentPage, error) {
	tenant, err := caller.catalogTenant(q.Tenant)
	err = cmp.Or(err, checkName(node, q.NodeID), checkText("tool", q.Tool, maxText), checkLabels(labels, q.Labels))
	if err != nil {
		return agent.AgentPage{}, err
	}
	q.Tenant = tenant
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	return g.cfg.Agents.ListAgents(ctx, q)
}

func (g *Gateway) listDocuments(ctx context.Context, caller identity, q agent.DocumentQuery) (agent.DocumentPage, error) {
	tenant, err := caller.listTenant(q.Kind, q.Tenant)
	if q.Kind != "" {
		err = cmp.Or(err, checkKind(q.Kind))
	}
	if err := cmp.Or(err, checkName("name", q.Name), checkName("version", q.Version)); err != nil {
		return agent.DocumentPage{}, err
	}
	switch q.Source {
	case "", agent.SourceBuiltin, agent.SourceConfig, agent.SourceFolder, agent.SourceFollow, agent.SourceAPI:
	default:
		return agent.DocumentPage{}, agent.Invalid("source", "want builtin, config, folder, follow or api, got %.60q", q.Source)
	}
	q.Tenant = tenant
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	page, err := g.cfg.Documents.Documents(ctx, q)
	page.Documents = filterAllowed(caller, agent.ActionCatalogRead, page.Documents, func(d *agent.Document) string { return scopeName(d.DocumentKey) })
	return page, err
}

// document returns the one document of a key. A NodeDefinition may be named without its version while it has but one.
func (g *Gateway) document(ctx context.Context, caller identity, key agent.DocumentKey) (agent.Document, error) {
	key, err := caller.documentKey(key)
	if err == nil {
		err = caller.allow(agent.ActionCatalogRead, scopeName(key))
	}
	if err != nil {
		return agent.Document{}, err
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	page, err := g.cfg.Documents.Documents(ctx, agent.DocumentQuery{
		Kind: key.Kind, Tenant: key.Tenant, Name: key.Name, Version: key.Version, Page: agent.Page{Size: defaultPage},
	})
	if err != nil {
		return agent.Document{}, err
	}
	switch len(page.Documents) {
	case 0:
		return agent.Document{}, agent.Errorf(agent.CodeNotFound, "", "there is no %s", key)
	case 1:
		return page.Documents[0], nil
	}
	versions := make([]string, len(page.Documents))
	for i := range page.Documents {
		versions[i] = page.Documents[i].Version
	}
	return agent.Document{}, agent.Invalid("version", "there are several: %s", strings.Join(versions, ", "))
}

func (g *Gateway) listHistory(ctx context.Context, caller identity, q agent.HistoryQuery) (agent.HistoryPage, error) {
	tenant, err := caller.listTenant(q.Kind, q.Tenant)
	if q.Kind != "" {
		err = cmp.Or(err, checkKind(q.Kind))
	}
	if err := cmp.Or(err, checkName("name", q.Name)); err != nil {
		return agent.HistoryPage{}, err
	}
	q.Tenant = tenant
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	page, err := g.cfg.Documents.History(ctx, q)
	page.Entries = filterAllowed(caller, agent.ActionCatalogRead, page.Entries, func(e *agent.AuditEntry) string { return scopeName(e.DocumentKey) })
	return page, err
}

// status returns the state of the catalog. Only callers of every tenant see the faults and the counts of all documents.
func (g *Gateway) status(ctx context.Context, caller identity) agent.CatalogStatus {
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	now := g.cfg.Documents.Status(ctx)
	if !caller.isOfOneTenant() {
		return now
	}
	own := agent.CatalogStatus{Revision: now.Revision, LoadedAt: now.LoadedAt}
	for _, s := range now.Sources {
		own.Sources = append(own.Sources, agent.SourceStatus{Name: s.Name, OK: s.OK, At: s.At})
	}
	return own
}

// planOf returns the plan of a hash, or without one that of an agent.
func (g *Gateway) planOf(ctx context.Context, caller identity, hash, tenant, name string) (body []byte, planHash string, err error) {
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	if hash != "" {
		if !hashPattern.MatchString(hash) {
			return nil, "", agent.Errorf(agent.CodeNotFound, "", "there is no plan %.140q: want sha256: and 64 hex digits", hash)
		}
		body, err = g.cfg.Agents.PlanBody(ctx, hash)
		if agent.CodeOf(err) == agent.CodeNotFound {
			err = noPlan(hash) // with this text, whatever the reason
		}
		if err == nil {
			err = caller.allowPlan(hash, body)
		}
		if err != nil {
			return nil, "", err
		}
		return body, hash, nil
	}
	if tenant, err = caller.catalogTenant(tenant); err != nil {
		return nil, "", err
	}
	if !agent.ValidName(name) {
		return nil, "", agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %.140q", name)
	}
	if err := caller.allow(agent.ActionCatalogRead, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: name})); err != nil {
		return nil, "", err
	}
	return g.cfg.Agents.AgentPlan(ctx, tenant, name)
}

// allowPlan returns an error unless the caller may read the agent of a plan. Another tenant's plan is not found.
func (c identity) allowPlan(hash string, body []byte) error {
	var of struct {
		Tenant string `json:"tenant"`
		Agent  string `json:"agent"`
	}
	if !c.isOfOneTenant() && c.principal.MayAll(agent.ActionCatalogRead) {
		return nil
	}
	err := json.Unmarshal(body, &of)
	if err != nil || (c.isOfOneTenant() && of.Tenant != c.tenant && of.Tenant != agent.SharedTenant) {
		return noPlan(hash)
	}
	return c.allow(agent.ActionCatalogRead, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: of.Agent}))
}

func noPlan(hash string) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no plan %q", hash)
}

// watch checks a query for the stream of the catalog and opens it. It lasts until ctx ends.
func (g *Gateway) watch(ctx context.Context, caller identity, q agent.WatchQuery) (iter.Seq2[agent.CatalogEvent, error], error) {
	tenant, err := caller.catalogTenant(q.Tenant)
	if err != nil {
		return nil, err
	}
	q.Tenant = tenant
	return g.cfg.Agents.Watch(ctx, q), nil
}

// explain says which agent would answer a request through a door, and why.
func (g *Gateway) explain(ctx context.Context, caller identity, door string, r agent.RouteContext) (agent.RouteDecision, error) {
	// What a turn would be checked for, with a message that passes.
	turn := agent.TurnRequest{Agent: r.Agent, SessionID: r.SessionID, Message: "-", Context: r.InvocationContext}
	if err := cmp.Or(caller.setCaller(&turn), checkText("channel", r.Channel, maxText)); err != nil {
		return agent.RouteDecision{}, err
	}
	if err := turn.Validate(0); err != nil {
		return agent.RouteDecision{}, err
	}
	r.InvocationContext, r.Channel = turn.Context, cmp.Or(r.Channel, door)
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	return g.cfg.Agents.Route(ctx, r)
}
