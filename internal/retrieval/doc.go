// Package retrieval adds documents to knowledge collections, searches them, and cites them.
//
//	Add:    file → document.Parse → documents → chunks → embeddings → Store.PutDocument
//	Search: query → full text ┐
//	              → nearest  ─┴→ reciprocal rank fusion → passages
//
// A collection is a name of a tenant. Its settings come with each call, from the catalog. Every collection has full text. It has vectors if
// the database can keep them and the collection names an embedding model. If vectors fail in a search, full text answers alone.
//
// [QuotePassages] renders passages as numbered, quoted blocks for a prompt, which tells the model to write [1] behind what it takes from the first
// of them. [Cite] turns these markers into LangChain v1 citation annotations. Numbers count from 1, in the order of the passages, so both must be
// given the same ones.
//
// A passage is quoted material that a stranger may have written. Each of its lines is quoted with "> ", and its title and source are held to one
// line, so a passage cannot pretend to be another one or to be the end of the context. What it says can still mislead a model: the quotation
// shows who speaks, no more.
package retrieval

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps documents and their chunks.
type Store interface {
	// PutDocument replaces a document and its chunks in one transaction. A document of the same Hash changes nothing: changed false.
	PutDocument(ctx context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (changed bool, err error)
	// KnowledgeDocument returns one; [agent.CodeNotFound].
	KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error)
	// DeleteDocument removes one with its chunks; [agent.CodeNotFound].
	DeleteDocument(ctx context.Context, tenant, collection, id string) error
	// KnowledgeDocuments returns a page of the documents of a collection by id, those after an id.
	KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	// FullText ranks chunks by the words of query (websearch syntax tolerated, any language config the store has), best first. No
	// words: none.
	FullText(ctx context.Context, tenant, collection, query string, limit int) ([]agent.Passage, error)
	// Nearest ranks by cosine similarity (Score: 1 - distance, 0..1), best first. [agent.CodeUnavailable] where the database has no
	// vectors.
	Nearest(ctx context.Context, tenant, collection string, embedding []float32, limit int) ([]agent.Passage, error)
	// Vectors reports whether the database can keep embeddings.
	Vectors() bool
}
