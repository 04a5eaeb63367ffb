package gateway

import (
	"context"
	"mime"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of what callers may say of knowledge.
const (
	maxMetadata = 8 << 10
	maxQuestion = 4 << 10
	maxPassages = 100
)

// knowledgeBody is the body of GET and POST /v1/knowledge/{collection}/documents.
type knowledgeBody struct {
	Documents []agent.KnowledgeDocument `json:"documents"`
	Next      *string                   `json:"next_page_token,omitempty"` // of a list
}

// onCollection is what the calls about a collection share: it names the caller and the collection, and asks whether he may.
func onCollection(r *http.Request, q *query, a agent.Action) (caller identity, collection string, err error) {
	if caller, err = q.readCaller(r); err != nil {
		return caller, "", err
	}
	collection = r.PathValue("collection")
	if !agent.ValidName(collection) {
		return caller, "", agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %.140q", collection)
	}
	return caller, collection, caller.allow(a, collection)
}

// postKnowledge is POST /v1/knowledge/{collection}/documents?id=&title=&source=&metadata=. The body is the file itself, handed on as it
// arrives; its Content-Type is the file's.
func (s *httpServer) postKnowledge(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, collection, err := onCollection(r, q, agent.ActionKnowledgeWrite)
	if err != nil {
		return err
	}
	k := KnowledgeAdd{
		Tenant: caller.ownTenant(), Collection: collection, ID: q.text("id", maxToken), Title: q.text("title", maxToken),
		Source: q.text("source", maxToken), Metadata: q.object("metadata", maxMetadata),
	}
	if err := q.end(); err != nil {
		return err
	}
	if k.MIMEType, err = fileType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	if most := s.cfg.Limits.UploadBytes; r.ContentLength > most {
		return tooLarge(most)
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Limits.LongTimeout)
	defer cancel()
	file := s.uploadOf(w, r)
	k.Body = file
	documents, err := s.cfg.Runtime.AddKnowledge(ctx, k)
	if file.err != nil { // whatever the runtime made of it
		err = file.err
	}
	caller.auditChange(agent.ActionKnowledgeWrite, collection, facts{"add": len(documents), "id": clip.Bytes(k.ID, maxText)}, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, knowledgeBody{Documents: orEmpty(documents)})
	return nil
}

// fileType is the MIME type of an upload without its parameters. A type that says nothing is none.
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
func (s *httpServer) getKnowledge(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, collection, err := onCollection(r, q, agent.ActionKnowledgeRead)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.end(); err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Runtime.Knowledge(ctx, caller.ownTenant(), collection, page.Token, page.Size)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, knowledgeBody{Documents: orEmpty(found.Documents), Next: &found.Next})
	return nil
}

// deleteKnowledge is DELETE /v1/knowledge/{collection}/documents/{id}. The slashes of an id may be escaped or not.
func (s *httpServer) deleteKnowledge(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, collection, err := onCollection(r, q, agent.ActionKnowledgeWrite)
	if err == nil {
		err = q.end()
	}
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if id == "" || checkLine("", id, maxToken) != nil {
		return agent.Errorf(agent.CodeNotFound, "", "no document %.140q", id)
	}
	ctx, cancel := s.call(r)
	defer cancel()
	err = s.cfg.Runtime.DeleteKnowledge(ctx, caller.ownTenant(), collection, id)
	caller.auditChange(agent.ActionKnowledgeWrite, collection, facts{"delete": clip.Bytes(id, maxText)}, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, struct {
		Collection string `json:"collection"`
		ID         string `json:"id"`
	}{collection, id})
	return nil
}

// searchKnowledge is GET /v1/knowledge/{collection}/search?q=&top_k=.
func (s *httpServer) searchKnowledge(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, collection, err := onCollection(r, q, agent.ActionKnowledgeRead)
	if err != nil {
		return err
	}
	text, most := q.text("q", maxQuestion), q.number("top_k")
	switch err := q.end(); {
	case err != nil:
		return err
	case text == "":
		return agent.Invalid("q", "is empty: what is searched for?")
	case most > maxPassages:
		return agent.Invalid("top_k", "want 1 to %d, got %d", maxPassages, most)
	}
	ctx, cancel := s.call(r)
	defer cancel()
	passages, err := s.cfg.Runtime.SearchKnowledge(ctx, caller.ownTenant(), collection, text, int(most))
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, struct {
		Passages []agent.Passage `json:"passages"`
	}{orEmpty(passages)})
	return nil
}
