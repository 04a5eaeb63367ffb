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
	maxMetadata = 8 << 10
	maxQuestion = 4 << 10
	maxPassages = 100
)

// Knowledge is the port of knowledge collections. [agent.CodeNotFound] with Field "collection" for one that the catalog does not have.
type Knowledge interface {
	// AddKnowledge reads a file to its end and stores its documents: one, or many of a JSONL file. Documents that are stored already with the
	// same content stay as they are. [agent.CodeInvalid] for a format that is not supported or cannot be read; [agent.CodeOverflow] for
	// one that is too large. An error of Body is returned unchanged.
	AddKnowledge(ctx context.Context, k KnowledgeAdd) ([]agent.KnowledgeDocument, error)
	// Knowledge lists the documents of a collection after an id, by id, at most limit of them.
	Knowledge(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	// DeleteKnowledge deletes a document. [agent.CodeNotFound] for one that does not exist.
	DeleteKnowledge(ctx context.Context, tenant, collection, id string) error
	// SearchKnowledge finds the topK best passages, as an agent of the collection would; topK 0 is as many as an agent gets.
	SearchKnowledge(ctx context.Context, tenant, collection, text string, topK int) ([]agent.Passage, error)
}

// KnowledgeAdd is a file for a knowledge collection.
type KnowledgeAdd struct {
	Tenant     string
	Collection string
	ID         string          // of the document; empty: made of the source, or of the content
	Title      string          // empty: the document's own
	Source     string          // URL or file name, for citations; its extension helps when the MIME type does not
	MIMEType   string          // without parameters; empty: not known
	Metadata   json.RawMessage // an object, or nil
	Body       io.Reader
}

func (s *httpServer) routeKnowledge() {
	const one = "/v1/knowledge/{collection}"
	s.route(one+"/documents", methods{
		http.MethodGet:  requires(s.answer(tenantAgreed, s.getKnowledge), agent.ActionKnowledgeRead),
		http.MethodPost: requires(s.answer(tenantAgreed, s.postKnowledge), agent.ActionKnowledgeWrite),
	})
	s.route(one+"/documents/{id...}", methods{http.MethodDelete: requires(s.answer(tenantAgreed, s.deleteKnowledge), agent.ActionKnowledgeWrite)})
	s.route(one+"/search", methods{http.MethodGet: requires(s.answer(tenantAgreed, s.searchKnowledge), agent.ActionKnowledgeRead)})
}

// knowledgeBody is the body of GET and POST /v1/knowledge/{collection}/documents.
type knowledgeBody struct {
	Documents []agent.KnowledgeDocument `json:"documents"`
	Next      *string                   `json:"next_page_token,omitempty"` // of a list
}

// collection returns the collection of the path if the caller may do a to it.
func (c *Call) collection(a agent.Action) (string, error) {
	name := c.r.PathValue("collection")
	if !agent.ValidName(name) {
		return "", agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %.140q", name)
	}
	return name, c.Allow(a, name)
}

// postKnowledge is POST /v1/knowledge/{collection}/documents?id=&title=&source=&metadata=. The body is the file itself, passed on as it
// arrives; its Content-Type is the file's.
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
	if err := q.end(); err != nil {
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
	if file.err != nil { // the cause of the port's error
		err = file.err
	}
	c.caller.auditChange(agent.ActionKnowledgeWrite, collection, facts{"add": len(documents), "id": clip.Bytes(k.ID, maxText)}, err)
	return knowledgeBody{Documents: orEmpty(documents)}, err
}

// fileType returns the MIME type of an upload without its parameters, empty for a type that says nothing.
func fileType(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	media, _, err := mime.ParseMediaType(value)
	switch {
	case err != nil:
		return "", agent.Invalid("", "malformed Content-Type %.100q", value)
	case media == "application/octet-stream", media == "application/x-www-form-urlencoded": // the latter is what curl says by itself
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
	if err := c.query.end(); err != nil {
		return nil, err
	}
	found, err := s.cfg.Knowledge.Knowledge(c.bounded(), c.Tenant(), collection, page.Token, page.Size)
	return knowledgeBody{Documents: orEmpty(found.Documents), Next: &found.Next}, err
}

// deleteKnowledge is DELETE /v1/knowledge/{collection}/documents/{id}. The slashes of an id may be escaped or not.
func (s *httpServer) deleteKnowledge(c *Call) (any, error) {
	collection, err := c.collection(agent.ActionKnowledgeWrite)
	if err == nil {
		err = c.query.end()
	}
	if err != nil {
		return nil, err
	}
	id := c.r.PathValue("id")
	if id == "" || checkLine("", id, maxToken) != nil {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no document %.140q", id)
	}
	err = s.cfg.Knowledge.DeleteKnowledge(c.bounded(), c.Tenant(), collection, id)
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
	switch err := c.query.end(); {
	case err != nil:
		return nil, err
	case text == "":
		return nil, agent.Invalid("q", "is empty: what is searched for?")
	case topK > maxPassages:
		return nil, agent.Invalid("top_k", "want 1 to %d, got %d", maxPassages, topK)
	}
	passages, err := s.cfg.Knowledge.SearchKnowledge(c.bounded(), c.Tenant(), collection, text, int(topK))
	return struct {
		Passages []agent.Passage `json:"passages"`
	}{orEmpty(passages)}, err
}
