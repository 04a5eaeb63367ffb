package retrieval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

const (
	embedBatch = 64
	maxChunks  = 20_000 // of one file
)

// AddRequest adds a file to a collection.
type AddRequest struct {
	Tenant     string
	Collection string
	Definition agent.KnowledgeCollection // its chunk size and overlap count; 0: 1,000 characters and 15% of the size
	Embedding  *agent.PlanModel          // nil: full text alone

	ID       string // of the document; empty: its source, else its name
	Title    string // empty: the file's own
	Source   string // URL or file name, for citations; empty: the name
	MIMEType string // empty: by the name's extension, else by the content
	Name     string
	Metadata json.RawMessage // an object, or nothing
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
	Changed  bool   `json:"changed"`  // false: the same was there already
}

// Add reads a file and stores its documents: one, or one per line of JSONL, whose id is its own or "<id of the request>#<line>". It reads
// and checks the whole file first, so that a file with a broken line changes nothing. Then it stores the documents one by one, each with
// all of its chunks and vectors or not at all. If that fails, it returns the stored documents with the error; adding the file again
// continues there, because documents that did not change are neither embedded nor written again. A changed document replaces its chunks.
// A document that is gone from a JSONL file stays until it is deleted.
//
// Errors: [agent.CodeInvalid] and [agent.CodeOverflow] with the request's field, as [document.Parse] has them; the
// embedder's and the store's own.
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

// entry is a document that is ready to be stored, except for its vectors.
type entry struct {
	document agent.KnowledgeDocument
	chunks   []agent.KnowledgeChunk
}

// storeDocuments embeds and stores in groups that fill a batch of embeddings: a JSONL file may hold ten thousand documents of one chunk.
func (l *Library) storeDocuments(ctx context.Context, r *AddRequest, s settings, entries []entry) ([]Added, error) {
	var e agent.Embedder
	if s.embed {
		var err error
		if e, err = l.embedder(ctx, *r.Embedding); err != nil {
			return nil, fmt.Errorf("embed with %q: %w", r.Embedding.Profile, err)
		}
	}
	added := make([]Added, 0, len(entries))
	for len(entries) > 0 {
		n, chunks := 0, 0
		for n < len(entries) && (n == 0 || chunks+len(entries[n].chunks) <= embedBatch) {
			chunks += len(entries[n].chunks)
			n++
		}
		kept, err := l.storeGroup(ctx, e, entries[:n])
		added = append(added, kept...)
		if err != nil {
			return added, err
		}
		entries = entries[n:]
	}
	return added, nil
}

func (l *Library) storeGroup(ctx context.Context, e agent.Embedder, group []entry) ([]Added, error) {
	fresh := make([]*entry, 0, len(group))
	known := map[string]bool{}
	for i := range group {
		d := &group[i].document
		there, err := l.store.KnowledgeDocument(ctx, d.Tenant, d.Collection, d.ID)
		switch {
		case err == nil && there.Hash == d.Hash:
			known[d.ID] = true
		case err == nil, agent.CodeOf(err) == agent.CodeNotFound:
			fresh = append(fresh, &group[i])
		default:
			return nil, fmt.Errorf("look up document %q: %w", d.ID, err)
		}
	}
	if e != nil {
		if err := embedChunks(ctx, e, fresh); err != nil {
			return nil, err
		}
	}
	added := make([]Added, 0, len(group))
	for i := range group {
		d := group[i].document
		changed := false
		if !known[d.ID] {
			d.UpdatedAt = l.now().UTC()
			var err error
			if changed, err = l.store.PutDocument(ctx, d, group[i].chunks); err != nil {
				return added, fmt.Errorf("store document %q: %w", d.ID, err)
			}
		}
		added = append(added, Added{ID: d.ID, Title: d.Title, Hash: d.Hash, Bytes: d.Bytes, Chunks: d.Chunks, Embedded: e != nil, Changed: changed})
	}
	return added, nil
}

// embedChunks sets the vectors of the chunks of these documents.
func embedChunks(ctx context.Context, e agent.Embedder, entries []*entry) error {
	var chunks []*agent.KnowledgeChunk
	for _, x := range entries {
		for i := range x.chunks {
			chunks = append(chunks, &x.chunks[i])
		}
	}
	dimensions := 0
	for len(chunks) > 0 {
		batch := chunks[:min(len(chunks), embedBatch)]
		chunks = chunks[len(batch):]
		texts := make([]string, len(batch))
		for i, c := range batch {
			texts[i] = c.Text
		}
		vectors, err := e.Embed(ctx, texts)
		if err != nil {
			return fmt.Errorf("embed document %q: %w", entries[0].document.ID, err)
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
