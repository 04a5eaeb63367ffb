package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgvector/pgvector-go"

	"github.com/turnstone-run/turnstone/agent"
)

// vectorsTimeout bounds the question whether the database has vectors.
const vectorsTimeout = 5 * time.Second

// The lock is for processes that start together. No index: the vectors of a collection are compared one by one, which is exact and for
// tens of thousands of chunks quick enough.
const (
	vectorsOffered = `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')`
	lockVectors    = `SELECT pg_advisory_xact_lock(hashtextextended('turnstone knowledge_vectors', 0))`
	createVectors  = `CREATE EXTENSION IF NOT EXISTS vector`
	createTable    = `
CREATE TABLE IF NOT EXISTS knowledge_vectors (
	chunk_id  bigint PRIMARY KEY REFERENCES knowledge_chunks ON DELETE CASCADE,
	embedding vector NOT NULL
)`
	readVectors = `SELECT to_regclass('knowledge_vectors') IS NOT NULL`
)

// migrateVectors makes the table of vectors where the extension pgvector is installed and may be used; where not, the collections have
// full text alone. It is done at every start, since the extension may come later.
func migrateVectors(ctx context.Context, conn *pgx.Conn) error {
	var offered bool
	if err := conn.QueryRow(ctx, vectorsOffered).Scan(&offered); err != nil || !offered {
		return err
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, sql := range []string{lockVectors, createVectors, createTable} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil // most of all: the role may not
	}
	return err
}

// Vectors reports whether the database keeps vectors. It asks until it has once heard yes.
func (s *Store) Vectors() bool {
	if s.vectors.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), vectorsTimeout)
	defer cancel()
	var there bool
	if err := s.pool.QueryRow(ctx, readVectors).Scan(&there); err != nil {
		return false
	}
	s.vectors.Store(there)
	return there
}

// checkEmbedding refuses a vector that cosine similarity means nothing for.
func checkEmbedding(field string, v []float32) *agent.Error {
	var length float64
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	switch {
	case len(v) > maxDimensions:
		return agent.Invalid(field, "has %d dimensions, at most %d", len(v), maxDimensions)
	case math.IsNaN(length) || math.IsInf(length, 0):
		return agent.Invalid(field, "has a number that is none")
	case length == 0:
		return agent.Invalid(field, "has no direction")
	}
	return nil
}

const insertVectors = `
INSERT INTO knowledge_vectors (chunk_id, embedding)
SELECT c.chunk_id, v.embedding::vector
FROM unnest($4::integer[], $5::text[]) AS v (position, embedding)
	JOIN knowledge_chunks c ON c.tenant = $1 AND c.collection = $2 AND c.document_id = $3 AND c.position = v.position`

func queueVectors(b *pgx.Batch, d *agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) {
	var (
		positions  []int
		embeddings []string
	)
	for i := range chunks {
		if len(chunks[i].Embedding) > 0 {
			positions = append(positions, chunks[i].Position)
			embeddings = append(embeddings, pgvector.NewVector(chunks[i].Embedding).String())
		}
	}
	if len(positions) > 0 {
		b.Queue(insertVectors, d.Tenant, d.Collection, d.ID, positions, embeddings)
	}
}

const nearest = chunkColumns + `greatest(1 - (v.embedding <=> $3::text::vector), 0)` + chunkTables + `
	JOIN knowledge_vectors v USING (chunk_id)
WHERE c.tenant = $1 AND c.collection = $2
ORDER BY v.embedding <=> $3::text::vector, c.chunk_id LIMIT $4`

// Nearest returns the chunks of a collection whose vectors point most nearly where the given one does, best first, at most limit (100 by
// default, 1,000 at most); Score is the cosine similarity, 0 for what points elsewhere. [agent.CodeUnavailable] where the database keeps
// no vectors; [agent.CodeInvalid] with Field "embedding" for a vector of another length than the collection's.
func (s *Store) Nearest(ctx context.Context, tenant, collection string, embedding []float32, limit int) ([]agent.Passage, error) {
	const op, field = "search vectors", "embedding"
	if len(embedding) == 0 {
		return nil, agent.Invalid(field, "is empty")
	}
	if err := checkEmbedding(field, embedding); err != nil {
		return nil, err
	}
	if !s.Vectors() {
		return nil, agent.Errorf(agent.CodeUnavailable, op, "the database keeps no vectors: its extension pgvector is missing")
	}
	found, err := s.passages(ctx, op, nearest, tenant, collection, pgvector.NewVector(embedding).String(), pageSize(limit))
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "22000" { // data_exception: different vector dimensions
		return nil, agent.Invalid(field, "%s", pg.Message)
	}
	return found, err
}
