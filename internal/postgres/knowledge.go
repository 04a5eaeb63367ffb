package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a document. Those of its texts follow from what an entry of an index and a tsvector can hold.
const (
	maxDocumentIDBytes = 1 << 10
	maxTitleBytes      = 4 << 10 // of the title, and of the source
	maxChunkBytes      = 64 << 10
	maxChunks          = 50_000
	maxMetadataBytes   = 64 << 10
	maxDimensions      = 16_000 // pgvector's own

	chunksPerInsert = 500 // so that each statement stays far from the statement timeout
)

// Two writers of one collection's vectors must not both be the first, with vectors of different lengths.
const lockCollection = `
SELECT pg_advisory_xact_lock(hashtextextended('turnstone knowledge ' || $1 || ' ' || $2, 0))`

const readOtherDimensions = `
SELECT dimensions FROM knowledge_documents
WHERE tenant = $1 AND collection = $2 AND document_id <> $3 AND dimensions NOT IN (0, $4) LIMIT 1`

// A document that was stored where there were no vectors is stored again once there are.
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

// PutDocument replaces a document and its chunks in one transaction of two round trips. One of the same hash changes nothing. Vectors
// are left out where the database cannot keep them ([Store.Vectors]); once it can, the same hash is a change.
//
// [agent.CodeInvalid] with the field for what cannot be stored, most of all a vector of another length than those of the collection's
// other documents; [agent.CodeOverflow] for a document with too many chunks.
func (s *Store) PutDocument(ctx context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (changed bool, err error) {
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
	title, others := plain(d.Title), 0
	err = transact(ctx, s.pool, func(b *pgx.Batch) {
		if dimensions > 0 {
			b.Queue(lockCollection, d.Tenant, d.Collection)
			b.Queue(readOtherDimensions, d.Tenant, d.Collection, d.ID, dimensions).QueryRow(func(row pgx.Row) error {
				return optional(row.Scan(&others))
			})
		}
		b.Queue(putDocument, d.Tenant, d.Collection, d.ID, title, plain(d.Source), plain(d.MIMEType), plain(d.Hash), d.Bytes, len(chunks),
			dimensions, metadata, d.UpdatedAt).QueryRow(func(row pgx.Row) error { return optional(row.Scan(&changed)) })
	}, func(b *pgx.Batch) error {
		switch {
		case others > 0:
			return agent.Invalid("embedding", "has %d dimensions, the collection %q has %d", dimensions, d.Collection, others)
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
		positions[i], pages[i], texts[i] = chunks[i].Position, chunks[i].Page, plain(chunks[i].Text)
	}
	b.Queue(insertChunks, d.Tenant, d.Collection, d.ID, title, positions, pages, texts)
}

// checkDocument refuses what cannot be stored, and returns the length of the chunks' vectors, 0 when they have none.
func checkDocument(d *agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (dimensions int, err error) {
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"tenant", d.Tenant, maxNameBytes}, {"collection", d.Collection, maxNameBytes}, {"id", d.ID, maxDocumentIDBytes},
	} {
		if err := checkText(text.field, text.value, text.most); err != nil {
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
	places := make(map[int]bool, len(chunks))
	for i := range chunks {
		c := &chunks[i]
		path := fmt.Sprintf("chunks[%d]", i)
		switch {
		case len(c.Text) > maxChunkBytes:
			return 0, agent.Invalid(path+".text", "is longer than %d bytes", maxChunkBytes)
		case places[c.Position], c.Position < 0, c.Position > math.MaxInt32:
			return 0, agent.Invalid(path+".position", "%d is taken or no position", c.Position)
		case c.Page < 0, c.Page > math.MaxInt32:
			return 0, agent.Invalid(path+".page", "%d is no page", c.Page)
		case len(c.Embedding) > 0 && dimensions > 0 && len(c.Embedding) != dimensions:
			return 0, agent.Invalid(path+".embedding", "has %d dimensions, those before it have %d", len(c.Embedding), dimensions)
		}
		places[c.Position] = true
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
SELECT tenant, collection, document_id, title, source, mime_type, hash, bytes, chunks, metadata, updated_at FROM knowledge_documents`

const (
	readKnowledge     = knowledgeColumns + ` WHERE tenant = $1 AND collection = $2 AND document_id = $3`
	readKnowledgePage = knowledgeColumns + ` WHERE tenant = $1 AND collection = $2 AND document_id > $3 ORDER BY document_id LIMIT $4`
)

func scanKnowledge(row pgx.CollectableRow) (d agent.KnowledgeDocument, err error) {
	err = row.Scan(&d.Tenant, &d.Collection, &d.ID, &d.Title, &d.Source, &d.MIMEType, &d.Hash, &d.Bytes, &d.Chunks, (*[]byte)(&d.Metadata),
		&d.UpdatedAt)
	d.UpdatedAt = d.UpdatedAt.UTC()
	return d, err
}

// KnowledgeDocument returns a document of a collection; [agent.CodeNotFound] for one that is not there.
func (s *Store) KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error) {
	const op = "read document"
	rows, err := s.pool.Query(ctx, readKnowledge, tenant, collection, plain(id))
	if err != nil {
		return agent.KnowledgeDocument{}, mapError(op, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanKnowledge)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.KnowledgeDocument{}, unknownDocument(op, collection, id)
	}
	return d, mapError(op, err)
}

func unknownDocument(op, collection, id string) error {
	return agent.Errorf(agent.CodeNotFound, op, "collection %q has no document %q", collection, id)
}

const deleteDocument = `
DELETE FROM knowledge_documents WHERE tenant = $1 AND collection = $2 AND document_id = $3`

// DeleteDocument removes a document with its chunks and vectors; [agent.CodeNotFound] for one that is not there.
func (s *Store) DeleteDocument(ctx context.Context, tenant, collection, id string) error {
	const op = "delete document"
	tag, err := s.pool.Exec(ctx, deleteDocument, tenant, collection, plain(id))
	switch {
	case err != nil:
		return mapError(op, err)
	case tag.RowsAffected() == 0:
		return unknownDocument(op, collection, id)
	}
	return nil
}

// KnowledgeDocuments returns a page of the documents of a collection by id, those behind the id after, at most limit (100 by default,
// 1,000 at most). A collection that is not known has none.
func (s *Store) KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error) {
	const op = "list documents"
	limit = pageSize(limit)
	rows, err := s.pool.Query(ctx, readKnowledgePage, tenant, collection, plain(after), limit+1)
	if err != nil {
		return agent.KnowledgePage{}, mapError(op, err)
	}
	var page agent.KnowledgePage
	page.Documents, err = pgx.CollectRows(rows, scanKnowledge)
	if len(page.Documents) > limit {
		page.Documents = page.Documents[:limit]
		page.Next = page.Documents[limit-1].ID
	}
	return page, mapError(op, err)
}
