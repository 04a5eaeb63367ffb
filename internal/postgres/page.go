package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Bounds of a page.
const (
	defaultPage   = 100
	maxPage       = 1000
	maxPageBytes  = 8 << 20  // of its documents
	maxTokenBytes = 16 << 10 // more than a page token ever has
)

// pageSize returns the number of entries of a page for the number that somebody asked for.
func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// encodePageToken returns the page token for the place of a page's last entry.
func encodePageToken(place any) (string, error) {
	text, err := json.Marshal(place)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// decodePageToken reads a token of [encodePageToken] into place, which stays as it is for "". isValid reports whether a page can have had
// that place.
func decodePageToken[T any](s string, place *T, isValid func(*T) bool) error {
	if s == "" {
		return nil
	}
	malformed := agent.Invalid("page_token", "want the next_page_token of an earlier page")
	if len(s) > maxTokenBytes {
		return malformed
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || strictjson.Decode(text, place) != nil || !isValid(place) {
		return malformed
	}
	return nil
}

// cutPage cuts a list to the size of a page, and returns the token of the next page if the list is longer.
func cutPage[T any](list []T, size int, placeOf func(*T) any) (page []T, next string, err error) {
	if len(list) <= size {
		return list, "", nil
	}
	next, err = encodePageToken(placeOf(&list[size-1]))
	return list[:size], next, err
}

// boundedPage returns a query for one page of another query: at most $limit rows and $bytes bytes of documents, yet at least one row. The
// other query has to be ordered and to return one row more than a page has; size is the number of bytes of one of its rows. The last column
// of the page, found, counts the rows of the other query: if it is larger than the page, there are more pages.
func boundedPage(columns, query, order, size, limit, bytes string) string {
	return `
SELECT ` + columns + `, found FROM (
	SELECT l.*, row_number() OVER place AS n, count(*) OVER () AS found, sum(` + size + `) OVER place AS total
	FROM (` + query + `) l
	WINDOW place AS (ORDER BY ` + order + ` ROWS UNBOUNDED PRECEDING)
) p WHERE n <= ` + limit + ` AND (n = 1 OR total <= ` + bytes + `) ORDER BY n`
}

// queryBoundedPage runs a query of [boundedPage] and returns the token of the next page, if there is one.
//
// The filters of such a query leave many rows or few. QueryExecModeCacheDescribe makes a plan for the values at hand.
func queryBoundedPage[T any](
	ctx context.Context, q querier, scan pgx.RowToFunc[T], placeOf func(*T) any, sql string, args ...any,
) (page []T, next string, err error) {
	var found int
	page, err = queryRows(ctx, q, func(row pgx.CollectableRow) (T, error) { return scan(withColumn{row, &found}) }, sql,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if n := len(page); err == nil && n < found {
		next, err = encodePageToken(placeOf(&page[n-1]))
	}
	return page, next, err
}

// withColumn is a row with one more column behind those that a scan function reads.
type withColumn struct {
	pgx.CollectableRow

	last any
}

func (r withColumn) Scan(dest ...any) error { return r.CollectableRow.Scan(append(dest, r.last)...) }

// maxTokenTime is in the far future and still a valid timestamp: the year 11476.
const maxTokenTime = 300_000_000_000_000_000

// timePlace is the place of an entry in a list that begins with the newest one.
type timePlace struct {
	At int64  `json:"s"` // microseconds since 1970
	ID string `json:"r"`
}

// decodeTimePlace returns the place of a token. The place of "" is before the newest entry.
func decodeTimePlace(token string) (at time.Time, id string, err error) {
	place := timePlace{At: maxTokenTime}
	err = decodePageToken(token, &place, func(p *timePlace) bool {
		return 0 < p.At && p.At <= maxTokenTime && checkNames(nameField{value: p.ID}) == nil
	})
	return time.UnixMicro(place.At), place.ID, err
}
