package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// FindStore lists turns and sessions, newest first.
//
// A query examines at most 10,000 turns of the tenant: the newest after its page token and within its time range. So a page costs no more for a
// tenant with many turns, but even a page that is empty or not full may have a next page.
type FindStore struct{ *database }

const (
	defaultPageSize = 50
	maxExamined     = 10_000 // turns in one query
)

// examinedTurns selects the turns that a query examines, numbered from 1: at most $4 of tenant $1, older than ($2, $3). The %s is for further
// conditions, which must have an index.
const examinedTurns = `(
	SELECT t.*, row_number() OVER (ORDER BY t.created_at DESC, t.turn_id DESC) AS n
	FROM turns t WHERE t.tenant = $1 AND (t.created_at, t.turn_id) < ($2, $3)%s
	ORDER BY t.created_at DESC, t.turn_id DESC LIMIT $4
) t`

// foundOrLast selects the rows that match the filters, at most $5 and one more, which shows that there is a next page. It also selects the last
// examined turn, after which the next page begins.
const foundOrLast = ` WHERE t.found OR t.n = $4 ORDER BY t.created_at DESC, t.turn_id DESC LIMIT $5::integer + 1`

// waitingTurns selects the turns of tenant $1 that have an open approval, and the parents of these turns. PostgreSQL evaluates it only when a
// query finds a running turn.
const waitingTurns = `
WITH RECURSIVE waiting (turn_id) AS (
	SELECT a.turn_id FROM approvals a WHERE a.tenant = $1 AND ` + isOpen + `
	UNION
	SELECT t.parent FROM waiting w JOIN turns t ON t.turn_id = w.turn_id WHERE t.parent <> '' AND t.state IN ('queued', 'running')
)`

// shownState is the state of turn t for readers: waiting, or the stored state.
const shownState = `CASE WHEN t.state = 'running' AND t.turn_id IN (SELECT w.turn_id FROM waiting w) THEN 'waiting' ELSE t.state END`

const findTurns = waitingTurns + `
SELECT t.created_at, t.turn_id, t.n, t.found, t.turn_id, t.session_id, t.created_at, t.agent, t.user_id, t.channel, t.parent, ` + shownState + `,
	coalesce(o.r_stop_reason, ''), CASE WHEN t.state <> 'completed' THEN coalesce(r.error ->> 'type', '') ELSE '' END, t.mode,
	coalesce(nullif(o.r_model, ''), t.model), t.finished_at, o.r_usage, t.summary, t.rerun_of, t.from_step
FROM (
	SELECT * FROM (SELECT t.*, t.copy_of = ''%s AS found FROM ` + examinedTurns + `) t` + foundOrLast + `
) t LEFT JOIN agent_results r ON r.turn_id = t.turn_id LEFT JOIN LATERAL turnstone_outcome(r.output) o ON true
ORDER BY t.n`

// firstSummary is the summary of the first turn of the session of t.
const firstSummary = `(
	SELECT i.summary FROM turns i WHERE i.tenant = t.tenant AND i.session_id = t.session_id ORDER BY i.seq LIMIT 1
)`

// searchedText is the text in which sessions are searched: the title and the summary of the session of t.
const searchedText = `(
	SELECT s.title || E'\n' || coalesce(` + firstSummary + `, '') FROM sessions s WHERE s.tenant = t.tenant AND s.session_id = t.session_id
)`

// findSessions finds a session by its newest turn.
const findSessions = waitingTurns + `
SELECT t.created_at, t.turn_id, t.n, t.found, t.session_id, ` + shownTurn + `, ` + firstSummary + `, s.last_seq, t.agent, t.user_id, t.channel,
	` + shownState + `, s.created_at, coalesce(t.finished_at, t.created_at), s.forked_from, s.title
FROM (
	SELECT * FROM (
		SELECT t.*, true%s AND NOT EXISTS (
			SELECT FROM turns l WHERE l.tenant = t.tenant AND l.session_id = t.session_id AND l.seq > t.seq
		)%s AS found FROM ` + examinedTurns + `
	) t` + foundOrLast + `
) t JOIN sessions s ON s.tenant = t.tenant AND s.session_id = t.session_id
ORDER BY t.n`

// hasText is the condition that a text contains another one, ignoring case by the rules of the database's locale.
const hasText = `strpos(lower(%s), lower($%%d)) > 0`

// findQuery is a query with its arguments.
type findQuery struct {
	limit int
	args  []any
}

// newFindQuery returns the query for a page after a token. An invalid token is [agent.CodeInvalid] with Field "after".
func newFindQuery(tenant, after string, limit int) (*findQuery, error) {
	at, id, err := decodeTimePlace(after)
	if err != nil {
		return nil, agent.Invalid("after", "want the next of an earlier page")
	}
	limit = min(cmp.Or(max(limit, 0), defaultPageSize), agent.MaxFound)
	return &findQuery{limit: limit, args: []any{tenant, at, id, maxExamined, limit}}, nil
}

// where adds an argument and returns " AND " with the condition, whose %d becomes the number of the argument. If isSet is false, it does nothing
// and returns "".
func (q *findQuery) where(isSet bool, condition string, arg any) string {
	if !isSet {
		return ""
	}
	q.args = append(q.args, arg)
	return fmt.Sprintf(" AND "+condition, len(q.args))
}

// equals returns the condition that a column has a value, or "" if the value is "".
func (q *findQuery) equals(column, value string) string {
	return q.where(value != "", column+" = $%d", cleanText(value))
}

func (q *findQuery) between(since, until time.Time) string {
	return q.where(!since.IsZero(), "t.created_at >= $%d", since) + q.where(!until.IsZero(), "t.created_at < $%d", until)
}

func (q *findQuery) contains(searched, text string) string {
	return q.where(text != "", fmt.Sprintf(hasText, searched), cleanText(text))
}

func (q *findQuery) inState(states []string) string {
	return q.where(len(states) > 0, shownState+" = ANY ($%d)", states)
}

// foundRow is a row of a query: an entry of the page, or the last examined turn.
type foundRow[T any] struct {
	entry     T
	createdAt time.Time
	id        agent.TurnID
	n         int  // the number of the turn among the examined ones
	found     bool // whether the turn matches the filters
}

// findPage runs a query whose rows begin with the last four fields of [foundRow], and returns the page and the token of the next one.
func findPage[T any](
	ctx context.Context, s *FindStore, sql string, q *findQuery, dest func(entry *T) []any,
) (page []T, next string, err error) {
	// Filters may match many turns or few. This mode makes PostgreSQL plan for the actual arguments.
	rows, err := queryRows(ctx, s.pool, func(row pgx.CollectableRow) (r foundRow[T], err error) {
		return r, row.Scan(append([]any{&r.createdAt, &r.id, &r.n, &r.found}, dest(&r.entry)...)...)
	}, sql, append([]any{pgx.QueryExecModeCacheDescribe}, q.args...)...)
	if err != nil || len(rows) == 0 {
		return nil, "", err
	}
	last := &rows[min(len(rows), q.limit)-1]
	if len(rows) > q.limit || last.n == maxExamined {
		next, err = encodePageToken(timePlace{last.createdAt.UnixMicro(), string(last.id)})
	}
	for i := range rows[:min(len(rows), q.limit)] {
		if rows[i].found {
			page = append(page, rows[i].entry)
		}
	}
	return page, next, err
}

// liveStates returns the stored states for those of the given states that a turn has before it ends.
func liveStates(states []string) (live []string) {
	for _, state := range states {
		switch state {
		case agent.StateWaiting:
			live = append(live, agent.StateRunning)
		case agent.StateQueued, agent.StateRunning:
			live = append(live, state)
		}
	}
	return live
}

// FindTurns returns a page of a tenant's turns, newest first. An invalid token is [agent.CodeInvalid] with Field "after".
func (s *FindStore) FindTurns(ctx context.Context, q agent.TurnQuery) (page agent.TurnPage, err error) {
	f, err := newFindQuery(q.Tenant, q.After, q.Limit)
	if err != nil {
		return page, err
	}
	indexed := f.between(q.Since, q.Until) + f.equals("t.session_id", string(q.SessionID)) + f.equals("t.rerun_of", string(q.RerunOf))
	other := f.equals("t.agent", q.Agent) + f.equals("t.user_id", q.UserID) + f.equals("t.channel", q.Channel)
	if live := liveStates(q.Status); len(live) == len(q.Status) { // few turns are live
		indexed += f.where(len(live) > 0, "t.state = ANY ($%d)", live)
	}
	other += f.inState(q.Status) + f.contains("t.summary", q.Text)
	page.Turns, page.Next, err = findPage(ctx, s, fmt.Sprintf(findTurns, other, indexed), f, func(t *agent.TurnSummary) []any {
		return []any{
			&t.TurnID, &t.SessionID, &t.StartedAt, &t.Agent, &t.UserID, &t.Channel, &t.ParentID, &t.Status, &t.StopReason, &t.ErrorType, &t.Mode,
			&t.Model, &t.FinishedAt, &t.Usage, &t.Summary, &t.RerunOf, &t.FromStep,
		}
	})
	return page, mapError("find turns", err)
}

// FindSessions returns a page of a tenant's sessions, beginning with the session of the newest turn. A session that gets a new turn while a reader
// goes through the pages does not appear twice. An invalid token is [agent.CodeInvalid] with Field "after".
func (s *FindStore) FindSessions(ctx context.Context, q agent.SessionQuery) (page agent.SessionPage, err error) {
	f, err := newFindQuery(q.Tenant, q.After, q.Limit)
	if err != nil {
		return page, err
	}
	indexed := f.between(q.Since, q.Until) + f.equals("t.session_id", string(q.SessionID))
	newest := f.equals("t.agent", q.Agent) + f.equals("t.user_id", q.UserID) + f.equals("t.channel", q.Channel) + f.inState(q.Status)
	text := f.contains(searchedText, q.Text)
	page.Sessions, page.Next, err = findPage(ctx, s, fmt.Sprintf(findSessions, newest, text, indexed), f,
		func(c *agent.SessionSummary) []any {
			return []any{
				&c.SessionID, &c.LastTurnID, &c.Summary, &c.Turns, &c.Agent, &c.UserID, &c.Channel, &c.Status, &c.CreatedAt, &c.ActiveAt,
				&c.ForkedFrom, &c.Title,
			}
		})
	return page, mapError("find sessions", err)
}
