// Package retrieval adds documents to knowledge collections, searches them, and cites them.
//
//	Add:    file → document.Parse → documents → chunks → embeddings → Store.PutDocument
//	Search: query → full text ┐
//	              → nearest  ─┴→ reciprocal rank fusion → passages
//
// A collection belongs to a tenant. Each call gets its settings, which come from the catalog. Every collection has full text. It also has vectors if the
// database can store them and the collection names an embedding model. A search still returns results of full text if its search by vectors fails.
//
// [QuotePassages] renders passages as numbered, quoted blocks for a prompt. The prompt tells the model to write [1] after text from the first passage.
// [Cite] turns these markers into citation annotations of LangChain v1. Both need the same passages in the same order.
//
// A stranger may have written a passage. Each of its lines begins with "> ", and its title and source are on one line. So a passage cannot look like
// another one, or like the end of the context. The text of a passage can still mislead a model.
package retrieval

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps documents and their chunks.
type Store interface {
	// PutDocument stores a document and its chunks, or replaces them in one transaction. It changes nothing and returns false if the document has
	// the same Hash as the stored one.
	PutDocument(ctx context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (changed bool, err error)
	// KnowledgeDocument returns a document, or [agent.CodeNotFound].
	KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error)
	// FullText returns the chunks that match the words of query, best first, none if it has no words. It never fails because of the syntax of query.
	FullText(ctx context.Context, tenant, collection, query string, limit int) ([]agent.Passage, error)
	// Nearest returns the chunks with the highest cosine similarity, which is their Score, best first. It returns [agent.CodeUnavailable] if the
	// database cannot store vectors.
	Nearest(ctx context.Context, tenant, collection string, embedding []float32, limit int) ([]agent.Passage, error)
	// Vectors reports whether the database can store vectors.
	Vectors() bool
}
