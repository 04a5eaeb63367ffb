package retrieval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

const (
	embedBatch = 64
	maxChunks  = 20_000 // in one file
)

// AddRequest is a file to add to a collection.
type AddRequest struct {
	Tenant     string
	Collection string
	Definition agent.KnowledgeCollection // for its chunk size and overlap; 0: 1,000 characters and 15% of the size
	Embedding  *agent.PlanModel          // nil: no vectors

	ID       string // of the document; empty: Source or Name
	Title    string // empty: the title in the file
	Source   string // URL or file name, for citations; empty: Name
	MIMEType string // empty: by the extension of Name, else by the content
	Name     string
	Metadata json.RawMessage // an object, or empty
	Body     io.Reader
}

// Added is the outcome for one document.
type Added struct {
	ID       string `json:"id"`
	Title    string `json:"title,omitempty"`
	Hash     string `json:"hash"`
	Bytes    int64  `json:"bytes"`
	Chunks   int    `json:"chunks"`
	Embedded bool   `json:"embedded"` // its chunks have vectors
	Changed  bool   `json:"changed"`  // false: the same document was stored already
}

// Add reads a file and stores its documents: one, or one for each line of JSONL. A line without an id gets "<id of the request>#<line>". Add checks the
// whole file first, so a file with a broken line changes nothing. Then it stores one document after the other, each with all its chunks and vectors.
// If this fails, it returns the stored documents with the error. Adding the file again continues there, because unchanged documents are neither
// embedded nor written again. A changed document replaces the old one with its chunks. A document that is no longer in a JSONL file stays until it is
// deleted.
//
// Errors: [agent.CodeInvalid] and [agent.CodeOverflow] with the field of the request, as from [document.Parse]; errors of the embedder and the store.
func (l *Library) Add(ctx context.Context, r AddRequest) ([]Added, error) {
	s, err := requestSettings(&r, l.canEmbed(r.Embedding))
	if err != nil {
		return nil, err
	}
	data, err := readBody(r.Body)
	if err != nil {
		return nil, err
	}
	documents, err := document.Parse(ctx, document.File{MIMEType: r.MIMEType, Name: r.Name, Data: data})
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", s.id, err)
	}
	prepared, err := prepareDocuments(&r, s, documents, int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", s.id, err)
	}
	return l.storeDocuments(ctx, &r, s, prepared)
}

func readBody(body io.Reader) ([]byte, error) {
	if body == nil {
		return nil, agent.Invalid("body", "is missing")
	}
	data, err := io.ReadAll(io.LimitReader(body, document.MaxBytes+1))
	if err != nil {
		return nil, agent.FieldErrorf(agent.CodeUnavailable, "body", "cannot be read: %w", err)
	}
	if len(data) > document.MaxBytes {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "is larger than %d MiB", document.MaxBytes>>20)
	}
	return data, nil
}

// preparedDocument is a document that can be stored, but still lacks its vectors.
type preparedDocument struct {
	document agent.KnowledgeDocument
	chunks   []agent.KnowledgeChunk
}

// storeDocuments embeds and stores documents in groups that fill a batch of embeddings, because a JSONL file may have thousands of small documents.
func (l *Library) storeDocuments(ctx context.Context, r *AddRequest, s settings, documents []preparedDocument) ([]Added, error) {
	var e agent.Embedder
	if s.embed {
		var err error
		if e, err = l.embedder(ctx, *r.Embedding); err != nil {
			return nil, fmt.Errorf("embed with %q: %w", r.Embedding.Profile, err)
		}
	}
	added := make([]Added, 0, len(documents))
	for len(documents) > 0 {
		n, chunks := 0, 0
		for n < len(documents) && (n == 0 || chunks+len(documents[n].chunks) <= embedBatch) {
			chunks += len(documents[n].chunks)
			n++
		}
		stored, err := l.storeGroup(ctx, e, documents[:n])
		added = append(added, stored...)
		if err != nil {
			return added, err
		}
		documents = documents[n:]
	}
	return added, nil
}

func (l *Library) storeGroup(ctx context.Context, e agent.Embedder, group []preparedDocument) ([]Added, error) {
	changed := make([]*preparedDocument, 0, len(group))
	isUnchanged := map[string]bool{} // by id
	for i := range group {
		d := &group[i].document
		stored, err := l.store.KnowledgeDocument(ctx, d.Tenant, d.Collection, d.ID)
		switch {
		case err == nil && stored.Hash == d.Hash:
			isUnchanged[d.ID] = true
		case err == nil, agent.CodeOf(err) == agent.CodeNotFound:
			changed = append(changed, &group[i])
		default:
			return nil, fmt.Errorf("look up document %q: %w", d.ID, err)
		}
	}
	if e != nil {
		if err := embedChunks(ctx, e, changed); err != nil {
			return nil, err
		}
	}
	added := make([]Added, 0, len(group))
	for i := range group {
		d := group[i].document
		isChanged := false // also false if another writer has stored the same document in between
		if !isUnchanged[d.ID] {
			d.UpdatedAt = time.Now().UTC()
			var err error
			if isChanged, err = l.store.PutDocument(ctx, d, group[i].chunks); err != nil {
				return added, fmt.Errorf("store document %q: %w", d.ID, err)
			}
		}
		added = append(added, Added{ID: d.ID, Title: d.Title, Hash: d.Hash, Bytes: d.Bytes, Chunks: d.Chunks, Embedded: e != nil, Changed: isChanged})
	}
	return added, nil
}

// embedChunks sets the vectors of all chunks of documents.
func embedChunks(ctx context.Context, e agent.Embedder, documents []*preparedDocument) error {
	var chunks []*agent.KnowledgeChunk
	for _, d := range documents {
		for i := range d.chunks {
			chunks = append(chunks, &d.chunks[i])
		}
	}
	dimensions := 0
	for batch := range slices.Chunk(chunks, embedBatch) {
		texts := make([]string, len(batch))
		for i, c := range batch {
			texts[i] = c.Text
		}
		vectors, err := e.Embed(ctx, texts)
		if err != nil {
			return fmt.Errorf("embed document %q: %w", documents[0].document.ID, err)
		}
		if dimensions == 0 {
			dimensions = len(vectors[0])
		}
		for i, v := range vectors {
			if len(v) != dimensions {
				return agent.Errorf(agent.CodeInternal, "embed", "vectors of %d and of %d dimensions", dimensions, len(v))
			}
			batch[i].Embedding = v
		}
	}
	return nil
}
