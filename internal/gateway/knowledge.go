package gateway

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of requests about knowledge.
const (
	maxMetadata = 8 << 10 // bytes
	maxQuestion = 4 << 10 // bytes
	maxPassages = 100
)

// Knowledge is the port of knowledge collections. A collection that the catalog does not have is [agent.CodeNotFound] with Field "collection".
type Knowledge interface {
	// AddKnowledge reads a file to its end and stores its documents: those of a JSONL file, or the file as one. Documents that are stored with
	// the same content stay unchanged. An unsupported or unreadable format is [agent.CodeInvalid], a file that is too large
	// [agent.CodeOverflow]. Errors of Body are returned unchanged.
	AddKnowledge(ctx context.Context, k KnowledgeAdd) ([]agent.KnowledgeDocument, error)
	// Knowledge lists at most limit documents of a collection by id, after an id.
	Knowledge(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	// DeleteKnowledge deletes a document. An unknown document is [agent.CodeNotFound].
	DeleteKnowledge(ctx context.Context, tenant, collection, id string) error
	// SearchKnowledge returns the topK best passages. With topK 0 it returns as many as an agent gets.
	SearchKnowledge(ctx context.Context, tenant, collection, text string, topK int) ([]agent.Passage, error)
}

// KnowledgeAdd is a file for a knowledge collection.
type KnowledgeAdd struct {
	Tenant     string
	Collection string
	ID         string          // of the document; empty: derived from the source or the content
	Title      string          // empty: the title in the document
	Source     string          // URL or file name, for citations; its extension is used if there is no MIME type
	MIMEType   string          // without parameters; empty if unknown
	Metadata   json.RawMessage // an object, or nil
	Body       io.Reader
}

func (s *httpServer) routeKnowledge() {
	const one = "/v1/knowledge/{collection}"
	s.route(one+"/documents", methods{
		http.MethodGet:  requires(s.answer(tenantUnambiguous, s.getKnowledge), agent.ActionKnowledgeRead),
		http.MethodPost: requires(s.answer(tenantUnambiguous, s.postKnowledge), agent.ActionKnowledgeWrite),
	})
	s.route(one+"/documents/{id...}", methods{http.MethodDelete: requires(s.answer(tenantUnambiguous, s.deleteKnowledge), agent.ActionKnowledgeWrite)})
	s.route(one+"/search", methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.searchKnowledge), agent.ActionKnowledgeRead)})
}

// knowledgeBody is the body of GET and POST /v1/knowledge/{collection}/documents.
type knowledgeBody struct {
	Documents []agent.KnowledgeDocument `json:"documents"`
	Next      *string                   `json:"next_page_token,omitempty"` // nil for POST
}

// collection returns the collection of the path, if the caller may do a to it.
func (c *Call) collection(a agent.Action) (string, error) {
	name := c.r.PathValue("collection")
	if !agent.ValidName(name) {
		return "", agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %.140q", name)
	}
	return name, c.Allow(a, name)
}

// postKnowledge is POST /v1/knowledge/{collection}/documents?id=&title=&source=&metadata=. The body is the file, which is passed on as it
// arrives, and Content-Type is its type.
func (s *httpServer) postKnowledge(c *Call) (any, error) {
	collection, err := c.collection(agent.ActionKnowledgeWrite)
	if err != nil {
		return nil, err
	}
	q := c.query
	k := KnowledgeAdd{
		Tenant: c.Tenant(), Collection: collection, ID: q.text("id", maxToken), Title: q.text("title", maxToken),
		Source: q.text("source", maxToken), Metadata: q.object("metadata", maxMetadata),
	}
	if err := q.validate(); err != nil {
		return nil, err
	}
	if k.MIMEType, err = fileType(c.r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if limit := s.cfg.Limits.UploadBytes; c.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(c.r.Context(), s.cfg.Limits.LongTimeout)
	defer cancel()
	file := s.newUpload(c.w, c.r)
	k.Body = file
	documents, err := s.cfg.Knowledge.AddKnowledge(ctx, k)
	if file.err != nil { // the port may not have returned it
		err = file.err
	}
	c.caller.auditChange(agent.ActionKnowledgeWrite, collection, facts{"add": len(documents), "id": clip.Bytes(k.ID, maxText)}, err)
	return knowledgeBody{Documents: orEmpty(documents)}, err
}

// fileType returns the MIME type of an upload without parameters, empty if the header is absent or a client's default.
func fileType(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	media, _, err := mime.ParseMediaType(value)
	switch {
	case err != nil:
		return "", agent.Invalid("", "malformed Content-Type %.100q", value)
	case media == "application/octet-stream", media == "application/x-www-form-urlencoded": // the latter is curl's default
		return "", nil
	}
	return media, nil
}

// getKnowledge is GET /v1/knowledge/{collection}/documents?page_size=&page_token=.
func (s *httpServer) getKnowledge(c *Call) (any, error) {
	collection, err := c.collection(agent.ActionKnowledgeRead)
	if err != nil {
		return nil, err
	}
	page := c.query.page()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	found, err := s.cfg.Knowledge.Knowledge(c.callContext(), c.Tenant(), collection, page.Token, page.Size)
	return knowledgeBody{Documents: orEmpty(found.Documents), Next: &found.Next}, err
}

// deleteKnowledge is DELETE /v1/knowledge/{collection}/documents/{id}. The slashes of an id may be escaped or not.
func (s *httpServer) deleteKnowledge(c *Call) (any, error) {
	collection, err := c.collection(agent.ActionKnowledgeWrite)
	if err == nil {
		err = c.query.validate()
	}
	if err != nil {
		return nil, err
	}
	id := c.r.PathValue("id")
	if id == "" || checkLine("", id, maxToken) != nil {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no document %.140q", id)
	}
	err = s.cfg.Knowledge.DeleteKnowledge(c.callContext(), c.Tenant(), collection, id)
	c.caller.auditChange(agent.ActionKnowledgeWrite, collection, facts{"delete": clip.Bytes(id, maxText)}, err)
	return struct {
		Collection string `json:"collection"`
		ID         string `json:"id"`
	}{collection, id}, err
}

// searchKnowledge is GET /v1/knowledge/{collection}/search?q=&top_k=.
func (s *httpServer) searchKnowledge(c *Call) (any, error) {
	collection, err := c.collection(agent.ActionKnowledgeRead)
	if err != nil {
		return nil, err
	}
	text, topK := c.query.text("q", maxQuestion), c.query.number("top_k")
	switch err := c.query.validate(); {
	case err != nil:
		return nil, err
	case text == "":
		return nil, agent.Invalid("q", "is empty: what is searched for?")
	case topK > maxPassages:
		return nil, agent.Invalid("top_k", "want 1 to %d, got %d", maxPassages, topK)
	}
	passages, err := s.cfg.Knowledge.SearchKnowledge(c.callContext(), c.Tenant(), collection, text, int(topK))
	return struct {
		Passages []agent.Passage `json:"passages"`
	}{orEmpty(passages)}, err
}
