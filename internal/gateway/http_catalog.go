package gateway

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// planHashHeader holds the hash of the plan in a response.
const planHashHeader = "Turnstone-Plan-Hash"

// eventCatalog is the name of the events of the catalog's stream.
const eventCatalog = "catalog"

// routeCatalog registers the paths of the catalog. On most of them the parameter "tenant" is a filter, so only the header names the tenant.
func (s *httpServer) routeCatalog() {
	const base = "/v1/catalog"
	get := func(handle func(*Call) (any, error), a agent.Action) methods {
		return methods{http.MethodGet: requires(s.answer(tenantHeaderOnly, handle), a)}
	}
	stream := func(handle func(*Call) error, a agent.Action) methods {
		return methods{http.MethodGet: requires(s.serve(tenantHeaderOnly, handle), a)}
	}
	s.route("/v1/agents", get(s.getAgents, agent.ActionAgentsRead))
	s.route(base+"/agents", get(s.getAgents, agent.ActionAgentsRead))
	s.route(base+"/nodes", get(s.getNodes, agent.ActionAgentsRead))
	s.route(base+"/stream", stream(s.getCatalogStream, agent.ActionAgentsRead))
	s.route(base+"/agents/{name}/plan", stream(s.getAgentPlan, agent.ActionCatalogRead))
	s.route(base+"/plans/{hash}", stream(s.getPlan, agent.ActionCatalogRead))
	s.route(base+"/documents", methods{
		http.MethodGet: requires(answerQuery(s, tenantHeaderOnly, readDocumentQuery, s.listDocuments), agent.ActionCatalogRead),
	})
	s.route(base+"/documents/{kind}/{name}", methods{
		http.MethodGet:    requires(s.answer(tenantHeaderOnly, s.getDocument), agent.ActionCatalogRead),
		http.MethodDelete: requires(s.answer(tenantHeaderOnly, s.deleteDocument), agent.ActionCatalogWrite),
	})
	s.route(base+"/history", methods{
		http.MethodGet: requires(answerQuery(s, tenantHeaderOnly, readHistoryQuery, s.listHistory), agent.ActionCatalogRead),
	})
	s.route(base+"/status", get(s.getStatus, agent.ActionCatalogRead))
	s.route(base+"/apply", methods{http.MethodPost: requires(s.answer(tenantHeaderOnly, s.postApply), agent.ActionCatalogWrite)})
	s.route(base+"/publish", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postPublish), agent.ActionCatalogWrite)})
	s.route("/v1/routes/dry-run", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postRoute), agent.ActionAgentsRead)})
}

// getNodes is GET /v1/catalog/nodes?type=&node_id=&label=&page_size=&page_token=.
func (s *httpServer) getNodes(c *Call) (any, error) {
	q := c.query
	query := agent.NodeQuery{
		Type: agent.NodeType(q.text("type", maxText)), NodeID: q.text("node_id", maxText), Labels: q.labels(), Page: q.page(),
	}
	q.text("tenant", maxText) // ignored: nodes have no tenant
	if err := q.validate(); err != nil {
		return nil, err
	}
	page, err := s.listNodes(c.callContext(), "label", query)
	page.Nodes = mapList(page.Nodes, nodeBody)
	return page, err
}

// getAgents is GET /v1/agents and GET /v1/catalog/agents, ?tenant=&node=&tool=&label=&page_size=&page_token=.
func (s *httpServer) getAgents(c *Call) (any, error) {
	q := c.query
	query := agent.AgentQuery{
		Tenant: q.text("tenant", maxText), NodeID: q.text("node", maxText), Tool: q.text("tool", maxText), Labels: q.labels(), Page: q.page(),
	}
	if err := q.validate(); err != nil {
		return nil, err
	}
	page, err := s.listAgents(c.callContext(), c.caller, "node", "label", query)
	page.Agents = mapList(page.Agents, agentBody)
	return page, err
}

// readDocumentQuery reads ?kind=&tenant=&name=&version=&source=&page_size=&page_token=.
func readDocumentQuery(q *query) agent.DocumentQuery {
	return agent.DocumentQuery{
		Kind: agent.Kind(q.text("kind", maxText)), Tenant: q.text("tenant", maxText), Name: q.text("name", maxText),
		Version: q.text("version", maxText), Source: q.text("source", maxText), Page: q.page(),
	}
}

// documentKey returns the key that /documents/{kind}/{name}?tenant=&version= names.
func (c *Call) documentKey() agent.DocumentKey {
	return agent.DocumentKey{
		Kind: agent.Kind(c.r.PathValue("kind")), Name: c.r.PathValue("name"), Tenant: c.query.text("tenant", maxText),
		Version: c.query.text("version", maxText),
	}
}

// getDocument is GET /v1/catalog/documents/{kind}/{name}?tenant=&version=.
func (s *httpServer) getDocument(c *Call) (any, error) {
	key := c.documentKey()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	return s.document(c.callContext(), c.caller, key)
}

// readHistoryQuery reads ?kind=&tenant=&name=&page_size=&page_token=.
func readHistoryQuery(q *query) agent.HistoryQuery {
	return agent.HistoryQuery{
		Kind: agent.Kind(q.text("kind", maxText)), Tenant: q.text("tenant", maxText), Name: q.text("name", maxText), Page: q.page(),
	}
}

// getStatus is GET /v1/catalog/status. Its status is 200 even if a source has faults, because the catalog in use is still valid.
func (s *httpServer) getStatus(c *Call) (any, error) {
	c.query.text("tenant", maxText) // ignored: the status is that of the whole catalog
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	return statusBody(s.status(c.callContext(), c.caller)), nil
}

// getPlan is GET /v1/catalog/plans/{hash}: the canonical bytes of the plan.
func (s *httpServer) getPlan(c *Call) error {
	c.query.text("tenant", maxText) // ignored: a hash names one plan
	if err := c.query.validate(); err != nil {
		return err
	}
	hash := c.r.PathValue("hash")
	body, err := s.plan(c.callContext(), c.caller, hash)
	if err != nil {
		return err
	}
	s.writePlan(c, body, hash, "private, max-age=31536000, immutable")
	return nil
}

// getAgentPlan is GET /v1/catalog/agents/{name}/plan?tenant=: the plan that a turn started now would run.
func (s *httpServer) getAgentPlan(c *Call) error {
	tenant := c.query.text("tenant", maxText)
	if err := c.query.validate(); err != nil {
		return err
	}
	body, hash, err := s.agentPlan(c.callContext(), c.caller, tenant, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	s.writePlan(c, body, hash, "private, no-cache")
	return nil
}

// writePlan responds with a plan, or with status 304 if the client has it already.
func (s *httpServer) writePlan(c *Call, body []byte, hash, cacheControl string) {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", cacheControl)
	h.Set("ETag", `"`+hash+`"`)
	h.Set(planHashHeader, hash)
	s.extendWrite(c.w)
	http.ServeContent(c.w, c.r, "", time.Time{}, bytes.NewReader(body))
}

// getCatalogStream is GET /v1/catalog/stream?tenant=&after=.
func (s *httpServer) getCatalogStream(c *Call) (err error) {
	query := agent.WatchQuery{Tenant: c.query.text("tenant", maxText), After: c.query.number("after")}
	if id := c.r.Header.Get("Last-Event-ID"); id != "" { // overrides the parameter, as for the events of a turn
		if query.After, err = wholeNumber("Last-Event-ID", id); err != nil {
			return err
		}
	}
	if err := c.query.validate(); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	events, err := s.watch(ctx, c.caller, query)
	if err != nil {
		return err
	}
	return s.streamFrames(ctx, c, func(ctx context.Context) iter.Seq2[frame, error] {
		return oneByOne(ctx, framesOf(events, catalogFrame))
	})
}

func catalogFrame(e *agent.CatalogEvent) frame {
	return frame{id: e.Revision, name: eventCatalog, data: catalogEventBody(e)}
}
