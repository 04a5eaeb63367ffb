package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// ListNodes returns a page of the node definitions.
func (c *Client) ListNodes(ctx context.Context, q agent.NodeQuery) (agent.NodePage, error) {
	query := pageQuery(q.Page)
	set(query, "type", string(q.Type))
	set(query, "node_id", q.NodeID)
	setLabels(query, q.Labels)
	var out agent.NodePage
	return out, c.call(ctx, http.MethodGet, []string{catalogPath, "nodes"}, query, nil, &out)
}

// ListAgents returns a page of the agents that a request may name. An empty tenant is the client's.
func (c *Client) ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	query := pageQuery(q.Page)
	set(query, tenantParam, q.Tenant)
	set(query, "node", q.NodeID)
	set(query, "tool", q.Tool)
	setLabels(query, q.Labels)
	var out agent.AgentPage
	return out, c.call(ctx, http.MethodGet, []string{"agents"}, query, nil, &out)
}

// Documents returns a page of the catalog's documents. An empty tenant is the client's.
func (c *Client) Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error) {
	query := pageQuery(q.Page)
	set(query, "kind", string(q.Kind))
	set(query, tenantParam, q.Tenant)
	set(query, "name", q.Name)
	set(query, "version", q.Version)
	set(query, "source", q.Source)
	var out agent.DocumentPage
	return out, c.call(ctx, http.MethodGet, []string{catalogPath, "documents"}, query, nil, &out)
}

// Document returns one document; [agent.CodeNotFound] when there is none. An empty tenant is the client's.
func (c *Client) Document(ctx context.Context, key agent.DocumentKey) (agent.Document, error) {
	query := url.Values{}
	set(query, tenantParam, key.Tenant)
	set(query, "version", key.Version)
	var out agent.Document
	return out, c.call(ctx, http.MethodGet, []string{catalogPath, "documents", string(key.Kind), key.Name}, query, nil, &out)
}

// applyBody is the body of POST /v1/catalog/apply.
type applyBody struct {
	Files        []manifest          `json:"files"`
	Delete       []agent.DocumentKey `json:"delete,omitempty"`
	BaseRevision int64               `json:"base_revision,omitempty"`
	Prune        bool                `json:"prune,omitempty"`
	DryRun       bool                `json:"dry_run,omitempty"`
	Publish      bool                `json:"publish,omitempty"`
	By           string              `json:"by,omitempty"`
	Comment      string              `json:"comment,omitempty"`
}

type manifest struct {
	Name string `json:"name"`
	Data string `json:"data"`
}

// Apply changes the catalog, all of it or nothing. What is wrong with the documents is an [agent.Faults] in the error's chain.
// The source is the API, whatever the request says.
func (c *Client) Apply(ctx context.Context, r agent.ApplyRequest) (agent.ApplyResult, error) {
	body := applyBody{
		Files: make([]manifest, len(r.Files)), Delete: r.Delete, BaseRevision: r.BaseRevision, Prune: r.Prune, DryRun: r.DryRun,
		Publish: r.Publish, By: r.By, Comment: r.Comment,
	}
	for i, f := range r.Files {
		if !utf8.Valid(f.Data) { // JSON text cannot hold it, and would hold something else without a word
			return agent.ApplyResult{}, agent.Faults{{File: f.Name, Message: "is not UTF-8"}}.Err()
		}
		body.Files[i] = manifest{Name: f.Name, Data: string(f.Data)}
	}
	var out agent.ApplyResult
	return out, c.call(ctx, http.MethodPost, []string{catalogPath, "apply"}, nil, body, &out)
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
	query := url.Values{}
	set(query, tenantParam, d.Key.Tenant)
	set(query, "version", d.Key.Version)
	set(query, "by", d.By)
	set(query, "comment", d.Comment)
	if d.BaseRevision != 0 {
		query.Set("base_revision", strconv.FormatInt(d.BaseRevision, 10))
	}
	if d.DryRun {
		query.Set("dry_run", "true")
	}
	var out agent.ApplyResult
	return out, c.call(ctx, http.MethodDelete, []string{catalogPath, "documents", string(d.Key.Kind), d.Key.Name}, query, nil, &out)
}

// Publish compiles an agent and stores its plan; the answer has the artifact. An empty tenant is the client's.
func (c *Client) Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error) {
	body := struct {
		Tenant string `json:"tenant,omitempty"`
		Agent  string `json:"agent"`
		By     string `json:"by,omitempty"`
	}{cmp.Or(tenant, c.cfg.Tenant), name, by}
	var out agent.AgentInfo
	return out, c.call(ctx, http.MethodPost, []string{catalogPath, "publish"}, nil, body, &out)
}

// History returns a page of the audit trail, newest first. An empty tenant is the client's.
func (c *Client) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	query := pageQuery(q.Page)
	set(query, "kind", string(q.Kind))
	set(query, tenantParam, q.Tenant)
	set(query, "name", q.Name)
	var out agent.HistoryPage
	return out, c.call(ctx, http.MethodGet, []string{catalogPath, "history"}, query, nil, &out)
}

// CatalogStatus says what the server serves of the catalog.
func (c *Client) CatalogStatus(ctx context.Context) (agent.CatalogStatus, error) {
	var out agent.CatalogStatus
	return out, c.call(ctx, http.MethodGet, []string{catalogPath, "status"}, nil, nil, &out)
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
	var out agent.RouteDecision
	return out, c.call(ctx, http.MethodPost, []string{"routes", "dry-run"}, nil, body, &out)
}

func pageQuery(p agent.Page) url.Values {
	query := url.Values{}
	if p.Size != 0 {
		query.Set("page_size", strconv.Itoa(p.Size))
	}
	set(query, "page_token", p.Token)
	return query
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func setLabels(query url.Values, labels map[string]string) {
	for name, value := range labels { // the order does not matter: all must hold
		query.Add("label", fmt.Sprintf("%s=%s", name, value))
	}
}
