package gateway

import (
	"bytes"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const pathCatalog = "/v1/catalog"

// planHashHeader names the plan that a response is.
const planHashHeader = "Turnstone-Plan-Hash"

// eventCatalog names the events of the catalog's stream.
const eventCatalog = "catalog"

func (s *httpServer) routeCatalog() {
	s.route(pathCatalog+"/nodes", methods{http.MethodGet: needs(s.getNodes, agent.ActionAgentsRead)})
	s.route(pathCatalog+"/agents", methods{http.MethodGet: needs(s.getAgents, agent.ActionAgentsRead)})
	s.route(pathCatalog+"/stream", methods{http.MethodGet: needs(s.getCatalogStream, agent.ActionAgentsRead)})
	s.route(pathCatalog+"/agents/{name}/plan", methods{http.MethodGet: needs(s.getAgentPlan, agent.ActionCatalogRead)})
	s.route(pathCatalog+"/plans/{hash}", methods{http.MethodGet: needs(s.getPlan, agent.ActionCatalogRead)})
	s.route(pathCatalog+"/documents", methods{http.MethodGet: needs(s.getDocuments, agent.ActionCatalogRead)})
	s.route(pathCatalog+"/documents/{kind}/{name}", methods{
		http.MethodGet: needs(s.getDocument, agent.ActionCatalogRead), http.MethodDelete: needs(s.deleteDocument, agent.ActionCatalogWrite),
	})
	s.route(pathCatalog+"/history", methods{http.MethodGet: needs(s.getHistory, agent.ActionCatalogRead)})
	s.route(pathCatalog+"/status", methods{http.MethodGet: needs(s.getStatus, agent.ActionCatalogRead)})
	s.route(pathCatalog+"/apply", methods{http.MethodPost: needs(s.postApply, agent.ActionCatalogWrite)})
	s.route(pathCatalog+"/publish", methods{http.MethodPost: needs(s.postPublish, agent.ActionCatalogWrite)})
}

// getNodes is GET /v1/catalog/nodes?type=&node_id=&label=&page_size=&page_token=.
func (s *httpServer) getNodes(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	query := agent.NodeQuery{
		Type: agent.NodeType(q.text("type", maxText)), NodeID: q.text("node_id", maxText), Labels: q.labels(), Page: q.page(),
	}
	q.text("tenant", maxText) // nodes have no tenant: the parameter is accepted and ignored
	if err := q.end(); err != nil {
		return err
	}
	page, err := s.listNodes(r.Context(), "label", query)
	if err != nil {
		return err
	}
	page.Nodes = listed(page.Nodes, nodeBody)
	s.write(w, http.StatusOK, page)
	return nil
}

// getAgents is GET /v1/agents and GET /v1/catalog/agents, ?tenant=&node=&tool=&label=&page_size=&page_token=.
func (s *httpServer) getAgents(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	query := agent.AgentQuery{
		Tenant: q.text("tenant", maxText), NodeID: q.text("node", maxText), Tool: q.text("tool", maxText), Labels: q.labels(), Page: q.page(),
	}
	if err := q.end(); err != nil {
		return err
	}
	page, err := s.listAgents(r.Context(), caller, "node", "label", query)
	if err != nil {
		return err
	}
	page.Agents = listed(page.Agents, agentBody)
	s.write(w, http.StatusOK, page)
	return nil
}

// getDocuments is GET /v1/catalog/documents?kind=&tenant=&name=&version=&source=&page_size=&page_token=.
func (s *httpServer) getDocuments(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	query := agent.DocumentQuery{
		Kind: agent.Kind(q.text("kind", maxText)), Tenant: q.text("tenant", maxText), Name: q.text("name", maxText),
		Version: q.text("version", maxText), Source: q.text("source", maxText), Page: q.page(),
	}
	if err := q.end(); err != nil {
		return err
	}
	page, err := s.listDocuments(r.Context(), caller, query)
	if err != nil {
		return err
	}
	page.Documents = orEmpty(page.Documents)
	s.write(w, http.StatusOK, page)
	return nil
}

// pathKey returns the key of the document that a path /documents/{kind}/{name}?tenant=&version= names.
func pathKey(r *http.Request, q *query) agent.DocumentKey {
	return agent.DocumentKey{
		Kind: agent.Kind(r.PathValue("kind")), Name: r.PathValue("name"), Tenant: q.text("tenant", maxText), Version: q.text("version", maxText),
	}
}

// getDocument is GET /v1/catalog/documents/{kind}/{name}?tenant=&version=.
func (s *httpServer) getDocument(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	key := pathKey(r, q)
	if err := q.end(); err != nil {
		return err
	}
	d, err := s.document(r.Context(), caller, key)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, d)
	return nil
}

// getHistory is GET /v1/catalog/history?kind=&tenant=&name=&page_size=&page_token=.
func (s *httpServer) getHistory(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	query := agent.HistoryQuery{
		Kind: agent.Kind(q.text("kind", maxText)), Tenant: q.text("tenant", maxText), Name: q.text("name", maxText), Page: q.page(),
	}
	if err := q.end(); err != nil {
		return err
	}
	page, err := s.listHistory(r.Context(), caller, query)
	if err != nil {
		return err
	}
	page.Entries = orEmpty(page.Entries)
	s.write(w, http.StatusOK, page)
	return nil
}

// getStatus is GET /v1/catalog/status. The status is 200 even if a source has faults: what is served is still valid.
func (s *httpServer) getStatus(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	if err := onlyTenant(r); err != nil {
		return err
	}
	s.write(w, http.StatusOK, statusBody(s.status(r.Context(), caller)))
	return nil
}

// onlyTenant refuses every parameter but the tenant, which it ignores: the resource has none, but clients may send it with every request.
func onlyTenant(r *http.Request) error {
	q := readQuery(r)
	q.text("tenant", maxText)
	return q.end()
}

// getPlan is GET /v1/catalog/plans/{hash}: the canonical bytes of the plan.
func (s *httpServer) getPlan(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	if err := onlyTenant(r); err != nil {
		return err
	}
	body, hash, err := s.planOf(r.Context(), caller, r.PathValue("hash"), "", "")
	if err != nil {
		return err
	}
	s.writePlan(w, r, body, hash, "private, max-age=31536000, immutable")
	return nil
}

// getAgentPlan is GET /v1/catalog/agents/{name}/plan?tenant=: the plan that a turn started now would run.
func (s *httpServer) getAgentPlan(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	tenant := q.text("tenant", maxText)
	if err := q.end(); err != nil {
		return err
	}
	body, hash, err := s.planOf(r.Context(), caller, "", tenant, r.PathValue("name"))
	if err != nil {
		return err
	}
	s.writePlan(w, r, body, hash, "private, no-cache")
	return nil
}

// writePlan answers with a plan, or with 304 if the client has it already.
func (s *httpServer) writePlan(w http.ResponseWriter, r *http.Request, body []byte, hash, caching string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", caching)
	h.Set("ETag", `"`+hash+`"`)
	h.Set(planHashHeader, hash)
	s.extendWrite(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// getCatalogStream is GET /v1/catalog/stream?tenant=&after=.
func (s *httpServer) getCatalogStream(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	query := agent.WatchQuery{Tenant: q.text("tenant", maxText), After: q.number("after")}
	if id := r.Header.Get("Last-Event-ID"); id != "" { // wins, as for the events of a turn
		if query.After, err = wholeNumber("Last-Event-ID", id); err != nil {
			return err
		}
	}
	if err := q.end(); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()
	events, err := s.watch(ctx, caller, query)
	if err != nil {
		return err
	}
	out := eventWriter{w: w, control: http.NewResponseController(w), timeout: s.cfg.Limits.WriteTimeout}
	if err := out.begin(); err != nil || r.Method == http.MethodHead {
		return quietly(err)
	}
	// Nothing is read ahead: what a slow client has not taken yet comes as one event later.
	return quietly(out.follow(ctx, framesOf(events, catalogFrame), 0, s.cfg.Limits.Heartbeat))
}

func catalogFrame(e *agent.CatalogEvent) frame {
	return frame{id: e.Revision, name: eventCatalog, data: catalogEventBody(e)}
}
