package postgres

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// KnowledgeStore stores collections of documents, and finds their chunks by words and by vectors.
type KnowledgeStore struct {
	*database

	hasVectors atomic.Bool // set once the database has been found to have vectors
}

// Bounds of a document. Its texts have to fit into an index entry and into a tsvector.
const (
	maxDocumentIDBytes = 1 << 10
	maxTitleBytes      = 4 << 10 // of the title, and of the source
	maxChunkBytes      = 64 << 10
	maxChunks          = 50_000
	maxMetadataBytes   = 64 << 10
	maxDimensions      = 16_000 // the maximum of pgvector

	chunksPerInsert = 500 // so that no statement comes near the statement timeout
)

// lockCollection prevents that two concurrent writers of a new collection store vectors of different lengths.
const lockCollection = `
SELECT pg_advisory_xact_lock(hashtextextended('turnstone knowledge ' || $1 || ' ' || $2, 0))`

const readOtherDimensions = `
SELECT dimensions FROM knowledge_documents
WHERE tenant = $1 AND collection = $2 AND document_id <> $3 AND dimensions NOT IN (0, $4) LIMIT 1`

// putDocument also writes a document that has not changed, if it was stored without vectors and now has some.
const putDocument = `
INSERT INTO knowledge_documents AS d (tenant, collection, document_id, title, source, mime_type, hash, bytes, chunks, dimensions, metadata,
	updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant, collection, document_id) DO UPDATE
SET title = excluded.title, source = excluded.source, mime_type = excluded.mime_type, hash = excluded.hash, bytes = excluded.bytes,
	chunks = excluded.chunks, dimensions = excluded.dimensions, metadata = excluded.metadata, updated_at = excluded.updated_at
WHERE d.hash <> excluded.hash OR d.dimensions = 0 AND excluded.dimensions > 0
RETURNING true`

const dropChunks = `
DELETE FROM knowledge_chunks WHERE tenant = $1 AND collection = $2 AND document_id = $3`

const insertChunks = `
INSERT INTO knowledge_chunks (tenant, collection, document_id, title, position, page, text)
SELECT $1, $2, $3, $4, c.position, c.page, c.text
FROM unnest($5::integer[], $6::integer[], $7::text[]) AS c (position, page, text)`

// PutDocument replaces a document and its chunks in one transaction. It does nothing if the document has the stored hash. Without
// [KnowledgeStore.Vectors], vectors are not stored; once the database has vectors, the document is stored again even if the hash is the same.
//
// The error is [agent.CodeInvalid] with the field that cannot be stored, such as a vector that is not as long as those of the collection's other
// documents, or [agent.CodeOverflow] for too many chunks.
func (s *KnowledgeStore) PutDocument(ctx context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (changed bool, err error) {
	const op = "put document"
	dimensions, err := checkDocument(&d, chunks)
	if err != nil {
		return false, err
	}
	if dimensions > 0 && !s.Vectors() {
		dimensions = 0
	}
	metadata, err := encodeRaw(d.Metadata)
	if err != nil {
		return false, mapError(op, err)
	}
	if d.UpdatedAt.IsZero() {
		d.UpdatedAt = time.Now()
	}
	title, otherDimensions := cleanText(d.Title), 0
	err = s.transact(ctx, func(b *pgx.Batch) {
		if dimensions > 0 {
			b.Queue(lockCollection, d.Tenant, d.Collection)
			b.Queue(readOtherDimensions, d.Tenant, d.Collection, d.ID, dimensions).QueryRow(scanOptional(&otherDimensions))
		}
		b.Queue(putDocument, d.Tenant, d.Collection, d.ID, title, cleanText(d.Source), cleanText(d.MIMEType), cleanText(d.Hash), d.Bytes, len(chunks),
			dimensions, metadata, d.UpdatedAt).QueryRow(scanOptional(&changed))
	}, func(b *pgx.Batch) error {
		switch {
		case otherDimensions > 0:
			return agent.Invalid("embedding", "has %d dimensions, the collection %q has %d", dimensions, d.Collection, otherDimensions)
		case !changed:
			return nil
		}
		b.Queue(dropChunks, d.Tenant, d.Collection, d.ID)
		for start := 0; start < len(chunks); start += chunksPerInsert {
			part := chunks[start:min(start+chunksPerInsert, len(chunks))]
			queueChunks(b, &d, title, part)
			if dimensions > 0 {
				queueVectors(b, &d, part)
			}
		}
		return nil
	})
	if err != nil {
		return false, mapError(op, err)
	}
	return changed, nil
}

func queueChunks(b *pgx.Batch, d *agent.KnowledgeDocument, title string, chunks []agent.KnowledgeChunk) {
	positions, pages, texts := make([]int, len(chunks)), make([]int, len(chunks)), make([]string, len(chunks))
	for i := range chunks {
		positions[i], pages[i], texts[i] = chunks[i].Position, chunks[i].Page, cleanText(chunks[i].Text)
	}
	b.Queue(insertChunks, d.Tenant, d.Collection, d.ID, title, positions, pages, texts)
}

// checkDocument returns an error if a document cannot be stored, and otherwise the length of the vectors of its chunks, or 0 if they have none.
func checkDocument(d *agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (dimensions int, err error) {
	for _, text := range []struct {
		field, value string
		maxBytes     int
	}{
		{"tenant", d.Tenant, maxNameBytes}, {"collection", d.Collection, maxNameBytes}, {"id", d.ID, maxDocumentIDBytes},
	} {
		if err := checkText(text.field, text.value, text.maxBytes); err != nil {
			return 0, err
		}
		if text.value == "" {
			return 0, agent.Invalid(text.field, "is empty")
		}
	}
	switch {
	case len(d.Title) > maxTitleBytes:
		return 0, agent.Invalid("title", "is longer than %d bytes", maxTitleBytes)
	case len(d.Source) > maxTitleBytes:
		return 0, agent.Invalid("source", "is longer than %d bytes", maxTitleBytes)
	case len(d.Metadata) > maxMetadataBytes:
		return 0, agent.Invalid("metadata", "is longer than %d bytes", maxMetadataBytes)
	case len(chunks) > maxChunks:
		return 0, agent.Errorf(agent.CodeOverflow, "put document", "%d chunks, at most %d", len(chunks), maxChunks)
	}
	isTaken := make(map[int]bool, len(chunks)) // by position
	for i := range chunks {
		c := &chunks[i]
		path := fmt.Sprintf("chunks[%d]", i)
		switch {
		case len(c.Text) > maxChunkBytes:
			return 0, agent.Invalid(path+".text", "is longer than %d bytes", maxChunkBytes)
		case isTaken[c.Position], c.Position < 0, c.Position > math.MaxInt32:
			return 0, agent.Invalid(path+".position", "%d is taken or no position", c.Position)
		case c.Page < 0, c.Page > math.MaxInt32:
			return 0, agent.Invalid(path+".page", "%d is no page", c.Page)
		case len(c.Embedding) > 0 && dimensions > 0 && len(c.Embedding) != dimensions:
			return 0, agent.Invalid(path+".embedding", "has %d dimensions, those before it have %d", len(c.Embedding), dimensions)
		}
		isTaken[c.Position] = true
		if len(c.Embedding) > 0 {
			dimensions = len(c.Embedding)
			if err := checkEmbedding(path+".embedding", c.Embedding); err != nil {
				return 0, err
			}
		}
	}
	return dimensions, nil
}

const knowledgeColumns = `
SELECT tenant, collection, document_id AS id, title, source, mime_type, hash, bytes, chunks, metadata, updated_at FROM knowledge_documents`

const (
	readKnowledge     = knowledgeColumns + ` WHERE tenant = $1 AND collection = $2 AND document_id = $3`
	readKnowledgePage = knowledgeColumns + ` WHERE tenant = $1 AND collection = $2 AND document_id > $3 ORDER BY document_id LIMIT $4`
)

// KnowledgeDocument returns a document of a collection. The error is [agent.CodeNotFound] if it does not exist.
func (s *KnowledgeStore) KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error) {
	const op = "read document"
	d, err := queryRow(ctx, s.pool, unknownDocument(op, collection, id), pgx.RowToStructByName[agent.KnowledgeDocument], readKnowledge, tenant,
		collection, cleanText(id))
	return d, mapError(op, err)
}

func unknownDocument(op, collection, id string) error {
	return agent.Errorf(agent.CodeNotFound, op, "collection %q has no document %q", collection, id)
}

const deleteDocument = `
DELETE FROM knowledge_documents WHERE tenant = $1 AND collection = $2 AND document_id = $3`

// DeleteDocument removes a document with its chunks and vectors. The error is [agent.CodeNotFound] if it does not exist.
func (s *KnowledgeStore) DeleteDocument(ctx context.Context, tenant, collection, id string) error {
	const op = "delete document"
	tag, err := s.pool.Exec(ctx, deleteDocument, tenant, collection, cleanText(id))
	switch {
	case err != nil:
		return mapError(op, err)
	case tag.RowsAffected() == 0:
		return unknownDocument(op, collection, id)
	}
	return nil
}

// KnowledgeDocuments returns a page of the documents of a collection in the order of their ids: those after an id, at most limit (100 by default, 1,000
// at most). An unknown collection has no documents.
func (s *KnowledgeStore) KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (page agent.KnowledgePage, err error) {
	limit = pageSize(limit)
	page.Documents, err = queryRows(ctx, s.pool, pgx.RowToStructByName[agent.KnowledgeDocument], readKnowledgePage, tenant, collection,
		cleanText(after), limit+1)
	if len(page.Documents) > limit {
		page.Documents = page.Documents[:limit]
		page.Next = page.Documents[limit-1].ID
	}
	return page, mapError("list documents", err)
}
