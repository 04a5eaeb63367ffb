package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// ListNodes returns a page of the node definitions.
func (c *Client) ListNodes(ctx context.Context, q agent.NodeQuery) (agent.NodePage, error) {
	query := pageParams(q.Page, "type", string(q.Type), "node_id", q.NodeID)
	setLabels(query, q.Labels)
	return get[agent.NodePage](ctx, c, query, catalogPath, "nodes")
}

// ListAgents returns a page of the agents that a request may name. An empty tenant is the client's.
func (c *Client) ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	query := pageParams(q.Page, tenantParam, q.Tenant, "node", q.NodeID, "tool", q.Tool)
	setLabels(query, q.Labels)
	return get[agent.AgentPage](ctx, c, query, "agents")
}

// Documents returns a page of the catalog's documents. An empty tenant is the client's.
func (c *Client) Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error) {
	query := pageParams(q.Page, "kind", string(q.Kind), tenantParam, q.Tenant, "name", q.Name, "version", q.Version, "source", q.Source)
	return get[agent.DocumentPage](ctx, c, query, catalogPath, "documents")
}

// Document returns one document; [agent.CodeNotFound] when there is none. An empty tenant is the client's.
func (c *Client) Document(ctx context.Context, key agent.DocumentKey) (agent.Document, error) {
	query := params(tenantParam, key.Tenant, "version", key.Version)
	return get[agent.Document](ctx, c, query, catalogPath, "documents", string(key.Kind), key.Name)
}

// Apply changes the catalog, all of it or nothing. What is wrong with the documents is an [agent.Faults] in the error's chain.
// The source is the API, whatever the request says.
func (c *Client) Apply(ctx context.Context, r agent.ApplyRequest) (agent.ApplyResult, error) {
	body := gateway.ApplyBody{
		Delete: r.Delete, Prune: r.Prune, DryRun: r.DryRun, Publish: r.Publish, By: r.By, Comment: r.Comment,
	}
	if r.BaseRevision != 0 || r.FromEmpty {
		body.BaseRevision = &r.BaseRevision
	}
	for _, f := range r.Files {
		if !utf8.Valid(f.Data) { // JSON text cannot hold it, and would hold something else without a word
			return agent.ApplyResult{}, agent.Faults{{File: f.Name, Message: "is not UTF-8"}}.Err()
		}
		body.Files = append(body.Files, gateway.ManifestBody{Name: f.Name, Data: string(f.Data)})
	}
	return post[agent.ApplyResult](ctx, c, body, catalogPath, "apply")
}

// Deletion asks for the end of one document.
type Deletion struct {
	Key          agent.DocumentKey // an empty tenant is the client's
	BaseRevision int64             // as in [agent.ApplyRequest]
	DryRun       bool
	By           string
	Comment      string
}

// Delete deletes a document; [agent.CodeNotFound] when there is none.
func (c *Client) Delete(ctx context.Context, d Deletion) (agent.ApplyResult, error) {
	return call[agent.ApplyResult](ctx, c, request{
		method: http.MethodDelete, path: []string{catalogPath, "documents", string(d.Key.Kind), d.Key.Name},
		query: params(tenantParam, d.Key.Tenant, "version", d.Key.Version, "by", d.By, "comment", d.Comment,
			"base_revision", number(d.BaseRevision), "dry_run", flag(d.DryRun)),
	})
}

// Publish compiles an agent and stores its plan; the answer has the artifact. An empty tenant is the client's.
func (c *Client) Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error) {
	body := struct {
		Tenant string `json:"tenant,omitempty"`
		Agent  string `json:"agent"`
		By     string `json:"by,omitempty"`
	}{cmp.Or(tenant, c.cfg.Tenant), name, by}
	return post[agent.AgentInfo](ctx, c, body, catalogPath, "publish")
}

// History returns a page of the audit trail, newest first. An empty tenant is the client's.
func (c *Client) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	query := pageParams(q.Page, "kind", string(q.Kind), tenantParam, q.Tenant, "name", q.Name)
	return get[agent.HistoryPage](ctx, c, query, catalogPath, "history")
}

// CatalogStatus says what the server serves of the catalog.
func (c *Client) CatalogStatus(ctx context.Context) (agent.CatalogStatus, error) {
	return get[agent.CatalogStatus](ctx, c, nil, catalogPath, "status")
}

// Route explains which agent would answer such a request: a dry run with every rule. An empty tenant is the client's.
func (c *Client) Route(ctx context.Context, r agent.RouteContext) (agent.RouteDecision, error) {
	body := struct {
		Agent     string                  `json:"agent,omitempty"`
		SessionID agent.SessionID         `json:"session_id,omitempty"`
		Channel   string                  `json:"channel,omitempty"`
		Context   agent.InvocationContext `json:"context,omitzero"`
	}{r.Agent, r.SessionID, r.Channel, r.InvocationContext}
	body.Context.Tenant = cmp.Or(r.Tenant, c.cfg.Tenant)
	return post[agent.RouteDecision](ctx, c, body, "routes", "dry-run")
}

// params returns query parameters from pairs of names and values, without the empty values.
func params(pairs ...string) url.Values {
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if name, value := pair[0], pair[len(pair)-1]; value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// pageParams returns the parameters of a page, and those of the pairs.
func pageParams(p agent.Page, pairs ...string) url.Values {
	return params(append(pairs, "page_size", number(p.Size), "page_token", p.Token)...)
}

func setLabels(query url.Values, labels map[string]string) {
	for name, value := range labels { // the order does not matter: all must hold
		query.Add("label", name+"="+value)
	}
}

// number returns the parameter of a number, none for 0.
func number[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// flag returns the parameter of a flag, none for false.
func flag(on bool) string {
	if !on {
		return ""
	}
	return "true"
}

// moment returns the parameter of a time, none for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// oneTenant returns the parameter of a tenant, none for [agent.AnyTenant].
func oneTenant(tenant string) string {
	if tenant == agent.AnyTenant {
		return ""
	}
	return tenant
}
