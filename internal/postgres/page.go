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

// pageSize returns the size of a page for the limit in a request.
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

// decodePageToken decodes a token of [encodePageToken] into place. An empty token leaves place unchanged. The error is [agent.CodeInvalid] if
// the token is malformed or isValid returns false.
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

// cutPage returns the first size elements of a list, and the token of the next page if the list is longer.
func cutPage[T any](list []T, size int, placeOf func(*T) any) (page []T, next string, err error) {
	if len(list) <= size {
		return list, "", nil
	}
	next, err = encodePageToken(placeOf(&list[size-1]))
	return list[:size], next, err
}

// boundedPage returns SQL that limits a query to one page: at most limit rows and bytes bytes of documents, but at least one row. limit and
// bytes are placeholders; size is an expression for the bytes of a row. The query must be ordered and return one row more than a page has.
// The last column of the page, found, is the number of rows of the query: if it exceeds those of the page, there is a next page.
func boundedPage(columns, query, order, size, limit, bytes string) string {
	return `
SELECT ` + columns + `, found FROM (
	SELECT l.*, row_number() OVER place AS n, count(*) OVER () AS found, sum(` + size + `) OVER place AS total
	FROM (` + query + `) l
	WINDOW place AS (ORDER BY ` + order + ` ROWS UNBOUNDED PRECEDING)
) p WHERE n <= ` + limit + ` AND (n = 1 OR total <= ` + bytes + `) ORDER BY n`
}

// queryBoundedPage runs a query of [boundedPage], and returns the page and the token of the next one. It uses QueryExecModeCacheDescribe to
// get a plan for the actual arguments, because filters may match many rows or few.
func queryBoundedPage[T any](
	ctx context.Context, q querier, scan pgx.RowToFunc[T], placeOf func(*T) any, sql string, args ...any,
) (page []T, next string, err error) {
	var found int
	page, err = queryRows(ctx, q, func(row pgx.CollectableRow) (T, error) { return scan(countedRow{row, &found}) }, sql,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if n := len(page); err == nil && n < found {
		next, err = encodePageToken(placeOf(&page[n-1]))
	}
	return page, next, err
}

// countedRow is a row whose last column is a count. A scan function scans only the columns before it.
type countedRow struct {
	pgx.CollectableRow

	count *int
}

func (r countedRow) Scan(dest ...any) error { return r.CollectableRow.Scan(append(dest, r.count)...) }

// maxTokenTime is the latest time in a page token, in the year 11476. It is still a valid timestamp of PostgreSQL.
const maxTokenTime = 300_000_000_000_000_000

// timePlace is the place of an entry in a list whose newest entry comes first.
type timePlace struct {
	At int64  `json:"s"` // microseconds since 1970
	ID string `json:"r"`
}

// decodeTimePlace returns the place in a token. For "" it returns a place before the newest entry.
func decodeTimePlace(token string) (at time.Time, id string, err error) {
	place := timePlace{At: maxTokenTime}
	err = decodePageToken(token, &place, func(p *timePlace) bool {
		return 0 < p.At && p.At <= maxTokenTime && checkNames(nameField{value: p.ID}) == nil
	})
	return time.UnixMicro(place.At), place.ID, err
}
