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
	maxToken     = 1024 // bytes of the token of a page
	maxLabels    = 16
	maxText      = 256 // bytes of a filter or a name
	maxComment   = 4096
	maxManifests = 1000
	maxDeletes   = 1000
)

// hashPattern matches the hash of a plan, and a content address without its scheme.
var hashPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// catalogTenant returns the tenant of a call about the catalog, which is the caller's if the call names none. Only credentials of every tenant may
// name [agent.SharedTenant].
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

// listTenant is catalogTenant for lists of documents. It returns "" for the documents of every tenant and for NodeDefinitions, which have none.
func (c identity) listTenant(kind agent.Kind, named string) (string, error) {
	tenant, err := c.catalogTenant(named)
	if tenant == agent.SharedTenant || kind == agent.KindNode {
		tenant = ""
	}
	return tenant, err
}

// scopeName returns the name of a document in scopes.
func scopeName(k agent.DocumentKey) string { return string(k.Kind) + "/" + k.Name }

// completeKey checks the key of a document and returns it with its tenant.
func (c identity) completeKey(k agent.DocumentKey) (agent.DocumentKey, error) {
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
	if k.Tenant == agent.SharedTenant { // every tenant sees shared documents
		return k, nil
	}
	var err error
	k.Tenant, err = c.catalogTenant(k.Tenant)
	return k, err
}

// listNodes lists nodes. labelsField is the name of the filter by labels in errors.
func (g *Gateway) listNodes(ctx context.Context, labelsField string, q agent.NodeQuery) (agent.NodePage, error) {
	switch q.Type {
	case "", agent.NodeAgent, agent.NodeTool, agent.NodeToolkit:
	default:
		return agent.NodePage{}, agent.Invalid("type", "want agent, tool or toolkit, got %.60q", q.Type)
	}
	if err := cmp.Or(checkName("node_id", q.NodeID), checkLabels(labelsField, q.Labels)); err != nil {
		return agent.NodePage{}, err
	}
	return g.cfg.Agents.ListNodes(ctx, q)
}

// listAgents lists agents. nodeField and labelsField are the names of these filters in errors.
func (g *Gateway) listAgents(ctx context.Context, caller identity, nodeField, labelsField string, q agent.AgentQuery) (agent.AgentPage, error) {
	tenant, err := caller.catalogTenant(q.Tenant)
	err = cmp.Or(err, checkName(nodeField, q.NodeID), checkText("tool", q.Tool, maxText), checkLabels(labelsField, q.Labels))
	if err != nil {
		return agent.AgentPage{}, err
	}
	q.Tenant = tenant
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
	page, err := g.cfg.Documents.Documents(ctx, q)
	page.Documents = orEmpty(filterAllowed(caller, agent.ActionCatalogRead, page.Documents, func(d *agent.Document) string {
		return scopeName(d.DocumentKey)
	}))
	return page, err
}

// document returns the document of a key. The key of a NodeDefinition that has a single version needs no version.
func (g *Gateway) document(ctx context.Context, caller identity, key agent.DocumentKey) (agent.Document, error) {
	key, err := caller.completeKey(key)
	if err == nil {
		err = caller.allow(agent.ActionCatalogRead, scopeName(key))
	}
	if err != nil {
		return agent.Document{}, err
	}
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
	page, err := g.cfg.Documents.History(ctx, q)
	page.Entries = orEmpty(filterAllowed(caller, agent.ActionCatalogRead, page.Entries, func(e *agent.AuditEntry) string {
		return scopeName(e.DocumentKey)
	}))
	return page, err
}

// status returns the state of the catalog. Only callers of every tenant see faults, details and counts.
func (g *Gateway) status(ctx context.Context, caller identity) agent.CatalogStatus {
	full := g.cfg.Documents.Status(ctx)
	if !caller.isOfOneTenant() {
		return full
	}
	public := agent.CatalogStatus{Revision: full.Revision, LoadedAt: full.LoadedAt}
	for _, s := range full.Sources {
		public.Sources = append(public.Sources, agent.SourceStatus{Name: s.Name, OK: s.OK, At: s.At})
	}
	return public
}

// plan returns the plan of a hash.
func (g *Gateway) plan(ctx context.Context, caller identity, hash string) (body []byte, err error) {
	if !hashPattern.MatchString(hash) {
		return nil, agent.Errorf(agent.CodeNotFound, "", "there is no plan %.140q: want sha256: and 64 hex digits", hash)
	}
	body, err = g.cfg.Agents.PlanBody(ctx, hash)
	if agent.CodeOf(err) == agent.CodeNotFound {
		err = noPlan(hash) // the same text as for a plan of another tenant
	}
	if err == nil {
		err = caller.allowPlan(hash, body)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// agentPlan returns the current plan of an agent with its hash.
func (g *Gateway) agentPlan(ctx context.Context, caller identity, tenant, name string) (body []byte, hash string, err error) {
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

// allowPlan returns nil if the caller may read the agent of a plan. A plan of another tenant is not found.
func (c identity) allowPlan(hash string, body []byte) error {
	if !c.isOfOneTenant() && c.principal.MayAll(agent.ActionCatalogRead) {
		return nil
	}
	var plan struct {
		Tenant string `json:"tenant"`
		Agent  string `json:"agent"`
	}
	err := json.Unmarshal(body, &plan)
	if err != nil || (c.isOfOneTenant() && plan.Tenant != c.tenant && plan.Tenant != agent.SharedTenant) {
		return noPlan(hash)
	}
	return c.allow(agent.ActionCatalogRead, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: plan.Agent}))
}

func noPlan(hash string) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no plan %q", hash)
}

// watch returns the changes of the catalog that a query asks for, until ctx ends.
func (g *Gateway) watch(ctx context.Context, caller identity, q agent.WatchQuery) (iter.Seq2[agent.CatalogEvent, error], error) {
	tenant, err := caller.catalogTenant(q.Tenant)
	if err != nil {
		return nil, err
	}
	q.Tenant = tenant
	return g.cfg.Agents.Watch(ctx, q), nil
}

// explain returns which agent would answer a request through a door, and why. It checks the request as that of a turn.
func (g *Gateway) explain(ctx context.Context, caller identity, door string, r agent.RouteContext) (agent.RouteDecision, error) {
	turn := agent.TurnRequest{Agent: r.Agent, SessionID: r.SessionID, Message: "-", Context: r.InvocationContext}
	if err := cmp.Or(caller.setCaller(&turn), checkText("channel", r.Channel, maxText)); err != nil {
		return agent.RouteDecision{}, err
	}
	if err := turn.Validate(0); err != nil {
		return agent.RouteDecision{}, err
	}
	r.InvocationContext, r.Channel = turn.Context, cmp.Or(r.Channel, door)
	return g.cfg.Agents.Route(ctx, r)
}
