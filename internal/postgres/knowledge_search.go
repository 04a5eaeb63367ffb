package postgres

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgvector/pgvector-go"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxQueryBytes = 16 << 10 // a longer query is cut
	maxQueryWords = 128
)

const chunkColumns = `
SELECT c.document_id || '#' || c.position AS id, c.collection, c.document_id, d.title, d.source, c.text, c.position, c.page, d.metadata, `

const chunkTables = `
FROM knowledge_chunks c JOIN knowledge_documents d USING (tenant, collection, document_id)`

// fullText finds a chunk by any word of the question, as written or by its English stem, except English stop words. ts_rank ranks chunks by how many
// different words they have; a repeated word counts less each time, while ts_rank_cd would count each repetition in full. If a chunk has all words,
// ts_rank_cd adds between 0 and 1 for how close together they are, and for quoted phrases.
//
// The tsquery is built as text in which the words are quoted, so that they have no special meaning.
const fullText = `
WITH word AS (
	SELECT lexeme, positions[1] AS place FROM unnest(to_tsvector('english', $3))
	UNION ALL
	SELECT lexeme, positions[1] FROM unnest(to_tsvector('simple', $3)) WHERE ts_lexize('english_stem', lexeme) <> '{}'
), chosen AS (
	SELECT lexeme FROM word GROUP BY lexeme ORDER BY min(place), lexeme LIMIT $4
), query AS (
	SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery AS any_word,
		websearch_to_tsquery('english', $3) AS every_word,
		('''' || replace(replace('in ' || $1 || ' ' || $2, '\', '\\'), '''', '''''') || '''')::tsquery AS place
	FROM chosen
), found AS MATERIALIZED (
	SELECT c.chunk_id, ts_rank(c.search, any_word) +
		CASE WHEN numnode(every_word) > 1 AND c.search @@ every_word THEN ts_rank_cd(c.search, every_word, 32) ELSE 0 END AS score
	FROM query, knowledge_chunks c
	WHERE c.search @@ (query.place && query.any_word) AND c.tenant = $1 AND c.collection = $2
	ORDER BY score DESC, c.chunk_id LIMIT $5
)` + chunkColumns + `f.score` + chunkTables + ` JOIN found f USING (chunk_id) ORDER BY f.score DESC, c.chunk_id`

// FullText returns the chunks of a collection that have words of the query, best first, at most limit (100 by default, 1,000 at most). The query is a
// question or keywords, and may have phrases in quotes. A query without words finds nothing. Scores are only comparable within one search.
func (s *KnowledgeStore) FullText(ctx context.Context, tenant, collection, query string, limit int) ([]agent.Passage, error) {
	query = cleanText(query[:min(len(query), maxQueryBytes)])
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	return s.passages(ctx, "search words", fullText, tenant, collection, query, maxQueryWords, pageSize(limit))
}

func (s *KnowledgeStore) passages(ctx context.Context, op, sql string, args ...any) ([]agent.Passage, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.Passage], sql, args...)
	return found, mapError(op, err)
}

// vectorsTimeout bounds the query of [KnowledgeStore.Vectors].
const vectorsTimeout = 5 * time.Second

// The lock is for processes that start at the same time. The table has no index on the vectors: a search compares the vectors of a collection one by
// one, which is exact, and fast enough for tens of thousands of chunks.
const (
	vectorsOffered = `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')`
	lockVectors    = `SELECT pg_advisory_xact_lock(hashtextextended('turnstone knowledge_vectors', 0))`
	createVectors  = `CREATE EXTENSION IF NOT EXISTS vector`
	createTable    = `
CREATE TABLE IF NOT EXISTS knowledge_vectors (
	chunk_id  bigint PRIMARY KEY REFERENCES knowledge_chunks ON DELETE CASCADE,
	embedding vector NOT NULL
)`
	vectorsExist = `SELECT to_regclass('knowledge_vectors') IS NOT NULL`
)

// migrateVectors creates the table of vectors if the extension pgvector is installed and the role may use it. Otherwise collections only have full-text
// search. It runs at every start, because the extension may be installed later.
func migrateVectors(ctx context.Context, conn *pgx.Conn) error {
	var offered bool
	if err := conn.QueryRow(ctx, vectorsOffered).Scan(&offered); err != nil || !offered {
		return err
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return execAll(ctx, tx, []string{lockVectors, createVectors, createTable})
	})
	if _, isRefused := errors.AsType[*pgconn.PgError](err); isRefused {
		return nil // most likely the role lacks the privilege
	}
	return err
}

// Vectors reports whether the database can store vectors. It asks the database each time until the answer is yes.
func (s *KnowledgeStore) Vectors() bool {
	if s.hasVectors.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), vectorsTimeout)
	defer cancel()
	var exist bool
	if err := s.pool.QueryRow(ctx, vectorsExist).Scan(&exist); err != nil {
		return false
	}
	s.hasVectors.Store(exist)
	return exist
}

// checkEmbedding returns an error if a vector is too long, or if its cosine similarity is not defined.
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

const nearest = chunkColumns + `greatest(1 - (v.embedding <=> $3::text::vector), 0) AS score` + chunkTables + `
	JOIN knowledge_vectors v USING (chunk_id)
WHERE c.tenant = $1 AND c.collection = $2
ORDER BY v.embedding <=> $3::text::vector, c.chunk_id LIMIT $4`

// Nearest returns the chunks of a collection whose vectors are nearest to a vector, best first, at most limit (100 by default, 1,000 at most). Their
// scores are the cosine similarities, or 0 for negative ones. The error is [agent.CodeUnavailable] if the database has no vectors, and
// [agent.CodeInvalid] with Field "embedding" if the vector is not as long as those of the collection.
func (s *KnowledgeStore) Nearest(ctx context.Context, tenant, collection string, embedding []float32, limit int) ([]agent.Passage, error) {
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

// Bounds of a ranking.
const (
	maxRanked      = 2_000
	maxRankedBytes = 2 << 20 // of all titles and bodies
)

// rankTexts finds a document by any word of the query, as written or by its English stem, and by words that begin with the last word. English stop words
// count only if the query has no other words. Documents with all words come first, ordered by how close together the words are (see fullText).
const rankTexts = `
WITH word AS (
	SELECT lexeme, positions[1] AS place, true AS telling FROM unnest(to_tsvector('english', $1))
	UNION ALL
	SELECT lexeme, positions[1], ts_lexize('english_stem', lexeme) <> '{}' FROM unnest(to_tsvector('simple', $1))
), chosen AS (
	SELECT lexeme, min(place) AS place, bool_or(telling) AS telling FROM word
	WHERE telling OR NOT EXISTS (SELECT FROM word WHERE telling)
	GROUP BY lexeme ORDER BY min(place), lexeme LIMIT $2
), query AS (
	SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''' ||
			CASE WHEN telling AND length(lexeme) >= 3 AND place = (SELECT max(place) FROM chosen) THEN ':*' ELSE '' END, ' | ')::tsquery AS any_word,
		plainto_tsquery('english', $1) AS every_word
	FROM chosen
)
SELECT d.n - 1, ts_rank(text, any_word) + 
	CASE WHEN numnode(every_word) > 1 AND text @@ every_word THEN 1 + ts_rank_cd(text, every_word, 32) ELSE 0 END AS score
FROM query, unnest($3::text[], $4::text[]) WITH ORDINALITY AS d (title, body, n), LATERAL (
	SELECT setweight(to_tsvector('simple', d.title), 'A') || setweight(to_tsvector('english', d.title), 'A') ||
		setweight(to_tsvector('simple', d.body), 'B') || setweight(to_tsvector('english', d.body), 'B') AS text OFFSET 0
) t
WHERE text @@ any_word ORDER BY score DESC, d.n LIMIT $5`

// RankTexts returns the indexes of at most n documents that have any word of the query, best first, and their scores, which are only comparable within
// one call. Document i consists of titles[i], whose words count more, and bodies[i]. The parts of a name such as execute_pipeline or orderStatus count
// as words, too. More than 2,000 documents or 2 MiB are [agent.CodeOverflow].
func (s *KnowledgeStore) RankTexts(ctx context.Context, query string, titles, bodies []string, n int) (indexes []int, scores []float64, err error) {
	const op = "rank texts"
	if len(titles) != len(bodies) {
		return nil, nil, agent.Errorf(agent.CodeInvalid, op, "%d titles and %d bodies", len(titles), len(bodies))
	}
	if len(titles) > maxRanked {
		return nil, nil, agent.Errorf(agent.CodeOverflow, op, "%d documents, at most %d", len(titles), maxRanked)
	}
	size := 0
	titleWords, bodyWords := make([]string, len(titles)), make([]string, len(bodies))
	for i := range titles {
		if size += len(titles[i]) + len(bodies[i]); size > maxRankedBytes {
			return nil, nil, agent.Errorf(agent.CodeOverflow, op, "the documents are more than %d bytes", maxRankedBytes)
		}
		titleWords[i], bodyWords[i] = nameWords(cleanText(titles[i])), nameWords(cleanText(bodies[i]))
	}
	query = nameWords(cleanText(query[:min(len(query), maxQueryBytes)]))
	if n <= 0 || len(titles) == 0 || strings.TrimSpace(query) == "" {
		return nil, nil, agent.Interrupted(ctx, op)
	}
	rows, err := s.pool.Query(ctx, rankTexts, query, maxQueryWords, titleWords, bodyWords, min(n, maxRanked))
	if err != nil {
		return nil, nil, mapError(op, err)
	}
	var (
		index int
		score float64
	)
	_, err = pgx.ForEachRow(rows, []any{&index, &score}, func() error {
		indexes, scores = append(indexes, index), append(scores, score)
		return nil
	})
	return indexes, scores, mapError(op, err)
}

// nameWords separates the words in names by spaces: it replaces characters other than letters, digits and apostrophes by a space, and inserts one before
// an upper-case letter that follows a lower-case one.
func nameWords(s string) string {
	var (
		b      strings.Builder
		before rune
	)
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'':
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}
