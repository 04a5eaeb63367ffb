package postgres

import (
	"context"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a ranking.
const (
	maxRanked      = 2_000
	maxRankedBytes = 2 << 20 // of all titles and bodies
)

// Documents are looked up by any of the query's words, as they are written and by their English stems, the last one also by its beginning.
// Words that are in every text (english's stop words) are looked up only where the query has no others. ts_rank adds up how many different
// words a document has; one that has all of them comes first, and ts_rank_cd judges how closely they stand together (see fullText).
//
// The words' query is put together as text: quoted, they are nothing but words.
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

// RankTexts returns the indexes of the documents that have any of the query's words, the best first, at most n of them, with their scores,
// which compare within one call. A document is a title, whose words count more, and the body of the same index. Names such as
// execute_pipeline and orderStatus are the words that they are put together of, too. One query. [agent.CodeOverflow] for more than 2,000
// documents or 2 MiB.
func (s *Store) RankTexts(ctx context.Context, query string, titles, bodies []string, n int) (indexes []int, scores []float64, err error) {
	const op = "rank texts"
	if len(titles) != len(bodies) {
		return nil, nil, agent.Errorf(agent.CodeInvalid, op, "%d titles and %d bodies", len(titles), len(bodies))
	}
	if len(titles) > maxRanked {
		return nil, nil, agent.Errorf(agent.CodeOverflow, op, "%d documents, at most %d", len(titles), maxRanked)
	}
	size := 0
	apart, plainBodies := make([]string, len(titles)), make([]string, len(bodies))
	for i := range titles {
		if size += len(titles[i]) + len(bodies[i]); size > maxRankedBytes {
			return nil, nil, agent.Errorf(agent.CodeOverflow, op, "the documents are more than %d bytes", maxRankedBytes)
		}
		apart[i], plainBodies[i] = nameWords(plain(titles[i])), nameWords(plain(bodies[i]))
	}
	query = nameWords(plain(query[:min(len(query), maxQueryBytes)]))
	if n <= 0 || len(titles) == 0 || strings.TrimSpace(query) == "" {
		return nil, nil, agent.Interrupted(ctx, op)
	}
	rows, err := s.pool.Query(ctx, rankTexts, query, maxQueryWords, apart, plainBodies, min(n, maxRanked))
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
	if err != nil {
		return nil, nil, mapError(op, err)
	}
	return indexes, scores, nil
}

// nameWords puts spaces between the words of names: at what is no letter, digit or apostrophe, and where a capital follows a small letter.
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
