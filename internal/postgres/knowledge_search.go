package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxQueryBytes = 16 << 10 // what follows in a question is not looked up
	maxQueryWords = 128
)

const chunkColumns = `
SELECT c.document_id || '#' || c.position, c.collection, c.document_id, d.title, d.source, c.text, c.position, c.page, d.metadata, `

const chunkTables = `
FROM knowledge_chunks c JOIN knowledge_documents d USING (tenant, collection, document_id)`

// A question is looked up by any of its words, as they are written and by their English stems; words that are in every text (english's
// stop words) are not looked up at all. ts_rank adds up how many different words a chunk has, where a repeated one counts less and less:
// ts_rank_cd over alternatives would count a word five times that is there five times. It judges instead, between 0 and 1, how closely
// the words stand together where a chunk has all of them, quoted phrases included.
//
// The words' query is put together as text: quoted, they are nothing but words.
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

// FullText returns the chunks of a collection that have words of the query, best first, at most limit (100 by default, 1,000 at most).
// The query is a question or keywords, with phrases in quotes; anything is a query, and one without words finds nothing. Scores compare
// within one search.
func (s *Store) FullText(ctx context.Context, tenant, collection, query string, limit int) ([]agent.Passage, error) {
	if len(query) > maxQueryBytes {
		query = query[:maxQueryBytes]
	}
	query = plain(query)
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	return s.passages(ctx, "search words", fullText, tenant, collection, query, maxQueryWords, pageSize(limit))
}

func (s *Store) passages(ctx context.Context, op, sql string, args ...any) ([]agent.Passage, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p agent.Passage, err error) {
		err = row.Scan(&p.ID, &p.Collection, &p.DocumentID, &p.Title, &p.Source, &p.Text, &p.Position, &p.Page, (*[]byte)(&p.Metadata), &p.Score)
		return p, err
	})
	return found, mapError(op, err)
}
