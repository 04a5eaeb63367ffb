package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// ManifestBody is a manifest in an [ApplyBody].
type ManifestBody struct {
	Name string `json:"name,omitempty"` // as faults name it
	Data string `json:"data"`           // YAML or JSON text
}

// ApplyBody is the JSON body of POST /v1/catalog/apply.
type ApplyBody struct {
	Files        []ManifestBody      `json:"files,omitempty"`
	Documents    []json.RawMessage   `json:"documents,omitempty"` // inline
	Delete       []agent.DocumentKey `json:"delete,omitempty"`
	BaseRevision *int64              `json:"base_revision,omitempty"` // nil: not checked
	Prune        bool                `json:"prune,omitempty"`
	DryRun       bool                `json:"dry_run,omitempty"`
	Publish      bool                `json:"publish,omitempty"`
	By           string              `json:"by,omitempty"`
	Comment      string              `json:"comment,omitempty"`
}

// request returns the request. Each inline document becomes a manifest, so that faults name it.
func (b *ApplyBody) request() (agent.ApplyRequest, error) {
	r := agent.ApplyRequest{
		Delete: b.Delete, Prune: b.Prune, DryRun: b.DryRun, Publish: b.Publish, By: b.By, Comment: b.Comment,
	}
	if b.BaseRevision != nil {
		r.BaseRevision, r.FromEmpty = *b.BaseRevision, *b.BaseRevision == 0
	}
	for _, f := range b.Files {
		r.Files = append(r.Files, agent.ManifestFile{Name: f.Name, Data: []byte(f.Data)})
	}
	for i, d := range b.Documents {
		name := fmt.Sprintf("documents[%d]", i)
		if !bytes.HasPrefix(bytes.TrimSpace(d), []byte("{")) {
			return r, agent.Invalid(name, "want an object: a catalog document")
		}
		r.Files = append(r.Files, agent.ManifestFile{Name: name, Data: d})
	}
	return r, nil
}

// postApply is POST /v1/catalog/apply. The body is an [ApplyBody] without query, or a YAML manifest whose options are in the query.
func (s *httpServer) postApply(c *Call) (any, error) {
	read := c.readApply
	if isYAML(c.r) {
		read = c.readManifest
	}
	request, err := read()
	if err != nil {
		return nil, err
	}
	return s.answerApply(c, request)
}

func (c *Call) readApply() (agent.ApplyRequest, error) {
	if err := CheckContentType(c.r); err != nil { // before the query, which would be valid with YAML
		return agent.ApplyRequest{}, err
	}
	if err := c.query.validate(); err != nil {
		return agent.ApplyRequest{}, err
	}
	var body ApplyBody
	if err := c.decode(&body); err != nil {
		return agent.ApplyRequest{}, err
	}
	return body.request()
}

func isYAML(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	switch media {
	case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml":
		return true
	}
	return false
}

func (c *Call) readManifest() (agent.ApplyRequest, error) {
	q := c.query
	request := agent.ApplyRequest{
		BaseRevision: q.number("base_revision"), Prune: q.bool("prune"), DryRun: q.bool("dry_run"), Publish: q.bool("publish"),
		By: q.text("by", maxText), Comment: q.text("comment", maxComment),
	}
	request.FromEmpty = q.values.Has("base_revision") && request.BaseRevision == 0
	name := q.text("name", maxToken)
	if err := q.validate(); err != nil {
		return request, err
	}
	data, err := c.ReadBody()
	if err != nil {
		return request, err
	}
	if len(bytes.TrimSpace(data)) > 0 {
		request.Files = []agent.ManifestFile{{Name: name, Data: data}}
	}
	return request, nil
}

func (s *httpServer) answerApply(c *Call, request agent.ApplyRequest) (any, error) {
	result, err := s.apply(c.callContext(), c.caller, "files", request)
	result.Changes = orEmpty(result.Changes)
	return result, err
}

// deleteDocument is DELETE /v1/catalog/documents/{kind}/{name}?tenant=&version=&base_revision=&dry_run=&by=&comment=.
func (s *httpServer) deleteDocument(c *Call) (any, error) {
	q := c.query
	request := agent.ApplyRequest{
		Delete: []agent.DocumentKey{c.documentKey()}, BaseRevision: q.number("base_revision"), DryRun: q.bool("dry_run"),
		By: q.text("by", maxText), Comment: q.text("comment", maxComment),
	}
	if err := q.validate(); err != nil {
		return nil, err
	}
	return s.answerApply(c, request)
}

// postPublish is POST /v1/catalog/publish.
func (s *httpServer) postPublish(c *Call) (any, error) {
	var body struct {
		Tenant string `json:"tenant,omitempty"`
		Agent  string `json:"agent"`
		By     string `json:"by,omitempty"`
	}
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	info, err := s.publish(c.callContext(), c.caller, body.Tenant, body.Agent, body.By)
	return agentBody(info), err
}

// postRoute is POST /v1/routes/dry-run. It ignores the message, which is allowed so that clients can send the body of a turn.
func (s *httpServer) postRoute(c *Call) (any, error) {
	var body struct {
		Agent     string                  `json:"agent,omitempty"`
		SessionID agent.SessionID         `json:"session_id,omitempty"`
		Channel   string                  `json:"channel,omitempty"`
		Message   string                  `json:"message,omitempty"`
		Context   agent.InvocationContext `json:"context,omitzero"`
	}
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	decision, err := s.explain(c.callContext(), c.caller, "http", agent.RouteContext{
		InvocationContext: body.Context, Agent: body.Agent, SessionID: body.SessionID, Channel: body.Channel,
	})
	return struct {
		agent.RouteDecision

		Rules []agent.RuleVerdict `json:"rules"`
	}{decision, orEmpty(decision.Rules)}, err
}
