package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// applyBody is the JSON body of POST /v1/catalog/apply.
type applyBody struct {
	Files []struct {
		Name string `json:"name,omitempty"` // for faults
		Data string `json:"data"`           // YAML or JSON text
	} `json:"files,omitempty"`
	Documents    []json.RawMessage   `json:"documents,omitempty"` // inline
	Delete       []agent.DocumentKey `json:"delete,omitempty"`
	BaseRevision int64               `json:"base_revision,omitempty"`
	Prune        bool                `json:"prune,omitempty"`
	DryRun       bool                `json:"dry_run,omitempty"`
	Publish      bool                `json:"publish,omitempty"`
	By           string              `json:"by,omitempty"`
	Comment      string              `json:"comment,omitempty"`
}

// request makes every inline document a manifest of its own, so that its faults say which it is.
func (b *applyBody) request() (agent.ApplyRequest, error) {
	r := agent.ApplyRequest{
		Delete: b.Delete, BaseRevision: b.BaseRevision, Prune: b.Prune, DryRun: b.DryRun, Publish: b.Publish, By: b.By, Comment: b.Comment,
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

// postApply is POST /v1/catalog/apply: a JSON body that says everything, or a YAML manifest with the rest in the query.
func (s *httpServer) postApply(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	var request agent.ApplyRequest
	if isYAML(r) {
		request, err = s.readManifest(w, r)
	} else {
		request, err = s.readApply(w, r)
	}
	if err != nil {
		return err
	}
	return s.answerApply(w, r, caller, request)
}

func (s *httpServer) readApply(w http.ResponseWriter, r *http.Request) (agent.ApplyRequest, error) {
	if err := CheckContentType(r); err != nil { // before the query, which is right for YAML
		return agent.ApplyRequest{}, err
	}
	if err := readQuery(r).end(); err != nil { // of a JSON body the query says nothing
		return agent.ApplyRequest{}, err
	}
	var body applyBody
	if err := s.decodeBody(w, r, &body); err != nil {
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

func (s *httpServer) readManifest(w http.ResponseWriter, r *http.Request) (agent.ApplyRequest, error) {
	q := readQuery(r)
	request := agent.ApplyRequest{
		BaseRevision: q.number("base_revision"), Prune: q.truth("prune"), DryRun: q.truth("dry_run"), Publish: q.truth("publish"),
		By: q.text("by", maxText), Comment: q.text("comment", maxComment),
	}
	name := q.text("name", maxToken)
	if err := q.end(); err != nil {
		return request, err
	}
	data, err := s.readBody(w, r)
	if err != nil {
		return request, err
	}
	if len(bytes.TrimSpace(data)) > 0 {
		request.Files = []agent.ManifestFile{{Name: name, Data: data}}
	}
	return request, nil
}

func (s *httpServer) answerApply(w http.ResponseWriter, r *http.Request, caller identity, request agent.ApplyRequest) error {
	result, err := s.apply(r.Context(), caller, "files", request)
	if err != nil {
		return err
	}
	result.Changes = orEmpty(result.Changes)
	s.write(w, http.StatusOK, result)
	return nil
}

// deleteDocument is DELETE /v1/catalog/documents/{kind}/{name}?tenant=&version=&base_revision=&dry_run=&by=&comment=.
func (s *httpServer) deleteDocument(w http.ResponseWriter, r *http.Request) error {
	caller, err := readHeaderCaller(r)
	if err != nil {
		return err
	}
	q := readQuery(r)
	request := agent.ApplyRequest{
		Delete: []agent.DocumentKey{pathKey(r, q)}, BaseRevision: q.number("base_revision"), DryRun: q.truth("dry_run"),
		By: q.text("by", maxText), Comment: q.text("comment", maxComment),
	}
	if err := q.end(); err != nil {
		return err
	}
	return s.answerApply(w, r, caller, request)
}

// publishBody is the body of POST /v1/catalog/publish.
type publishBody struct {
	Tenant string `json:"tenant,omitempty"`
	Agent  string `json:"agent"`
	By     string `json:"by,omitempty"`
}

// postPublish is POST /v1/catalog/publish.
func (s *httpServer) postPublish(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	var body publishBody
	if err := s.decodeBody(w, r, &body); err != nil {
		return err
	}
	info, err := s.publish(r.Context(), caller, body.Tenant, body.Agent, body.By)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, agentBody(info))
	return nil
}

// routeRequest is the body of POST /v1/routes/dry-run: what routing sees of a turn. The message is accepted, so that the body of a turn
// will do, and ignored.
type routeRequest struct {
	Agent     string                  `json:"agent,omitempty"`
	SessionID agent.SessionID         `json:"session_id,omitempty"`
	Channel   string                  `json:"channel,omitempty"`
	Message   string                  `json:"message,omitempty"`
	Context   agent.InvocationContext `json:"context,omitzero"`
}

// postRoute is POST /v1/routes/dry-run.
func (s *httpServer) postRoute(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	var body routeRequest
	if err := s.decodeBody(w, r, &body); err != nil {
		return err
	}
	decision, err := s.explain(r.Context(), caller, "http", agent.RouteContext{
		InvocationContext: body.Context, Agent: body.Agent, SessionID: body.SessionID, Channel: body.Channel,
	})
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, routeBodyOf(decision))
	return nil
}
