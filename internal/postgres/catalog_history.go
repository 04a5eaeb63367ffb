package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// maxHistoryBytes bounds the documents of a page; maxTokenBytes is more than a token ever has.
const (
	maxHistoryBytes = 8 << 20
	maxTokenBytes   = 16 << 10
)

// One more entry than the page may have is looked at, to know whether there are more.
const readHistory = `
SELECT revision, kind, tenant, name, version, action, before, after, at, by, source, comment, found FROM (
	SELECT h.*, sum(size) OVER newest AS total, row_number() OVER newest AS n, count(*) OVER () AS found
	FROM (
		SELECT * FROM catalog_history
		WHERE ($1 = '' OR kind = $1) AND ($2 = '' OR tenant = $2) AND ($3 = '' OR name = $3)
			AND ($4::bigint = 0 OR (revision, kind, tenant, name, version, action) < ($4, $5, $6, $7, $8, $9))
		ORDER BY revision DESC, kind DESC, tenant DESC, name DESC, version DESC, action DESC LIMIT $10::integer + 1
	) h
	WINDOW newest AS (ORDER BY revision DESC, kind DESC, tenant DESC, name DESC, version DESC, action DESC ROWS UNBOUNDED PRECEDING)
) p WHERE n <= $10 AND (n = 1 OR total <= $11) ORDER BY n`

// historyToken is the place of an entry in the history, the last of a page. Revisions begin with 1.
type historyToken struct {
	Revision int64  `json:"r"`
	Kind     string `json:"k,omitempty"`
	Tenant   string `json:"t,omitempty"`
	Name     string `json:"n,omitempty"`
	Version  string `json:"v,omitempty"`
	Action   string `json:"a,omitempty"`
}

// CatalogHistory returns a page of the audit trail, newest first and within a revision by key from the last: at most q.Size entries
// (100 by default, 1,000 at most) and at most 8 MiB of documents, yet at least one entry while there is one. Next is empty on the
// last page. A token that no page had is [agent.CodeInvalid]. One round trip.
func (s *Store) CatalogHistory(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	const op = "read catalog history"
	for _, filter := range []struct{ field, value string }{{"kind", string(q.Kind)}, {"tenant", q.Tenant}, {"name", q.Name}} {
		if err := checkText(filter.field, filter.value, maxNameBytes); err != nil {
			return agent.HistoryPage{}, err
		}
	}
	from, err := decodeToken(q.Token)
	if err != nil {
		return agent.HistoryPage{}, err
	}
	// The filters differ so much in what they leave that no plan suits all of them: this mode makes one for the values at hand.
	rows, err := s.pool.Query(ctx, readHistory, pgx.QueryExecModeCacheDescribe, string(q.Kind), q.Tenant, q.Name,
		from.Revision, from.Kind, from.Tenant, from.Name, from.Version, from.Action, pageSize(q.Size), maxHistoryBytes)
	if err != nil {
		return agent.HistoryPage{}, mapError(op, err)
	}
	var (
		page  agent.HistoryPage
		found int
	)
	page.Entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e agent.AuditEntry, err error) {
		err = row.Scan(&e.Revision, (*string)(&e.Kind), &e.Tenant, &e.Name, &e.Version, &e.Action, (*[]byte)(&e.Before),
			(*[]byte)(&e.After), &e.At, &e.By, &e.Source, &e.Comment, &found)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return agent.HistoryPage{}, mapError(op, err)
	}
	if n := len(page.Entries); n < found {
		page.Next, err = encodeToken(&page.Entries[n-1])
	}
	return page, mapError(op, err)
}

func encodeToken(e *agent.AuditEntry) (string, error) {
	text, err := json.Marshal(historyToken{
		Revision: e.Revision, Kind: string(e.Kind), Tenant: e.Tenant, Name: e.Name, Version: e.Version, Action: e.Action,
	})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// decodeToken returns the zero token for "".
func decodeToken(s string) (historyToken, error) {
	var t historyToken
	if s == "" {
		return t, nil
	}
	malformed := agent.Invalid("page_token", "is not one that a page had")
	if len(s) > maxTokenBytes {
		return t, malformed
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || strictjson.Decode(text, &t) != nil || t.Revision <= 0 {
		return t, malformed
	}
	for _, part := range []string{t.Kind, t.Tenant, t.Name, t.Version, t.Action} {
		if checkText("", part, maxNameBytes) != nil {
			return t, malformed
		}
	}
	return t, nil
}
