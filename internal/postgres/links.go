package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultLinkPage = 50
	maxLinkPage     = 500
	sweepRows       = 1000 // that one write removes of what is too old
)

const linkColumns = `channel, chat_id, tenant, user_id, role, scopes, linked_by, linked_at`

func scanLink(row pgx.CollectableRow) (l agent.Link, err error) {
	err = row.Scan(&l.Channel, &l.ChatID, &l.Tenant, &l.UserID, &l.Role, &l.Scopes, &l.LinkedBy, &l.LinkedAt)
	inUTC(&l.LinkedAt)
	return l, err
}

// Old codes stay for a day: the chat that used one may say it again.
const sweepCodes = `
DELETE FROM chat_link_codes WHERE hash IN (
	SELECT hash FROM chat_link_codes WHERE expires_at < clock_timestamp() - interval '1 day' LIMIT $1 FOR UPDATE SKIP LOCKED)`

const countCodes = `
SELECT count(*) FROM (
	SELECT FROM chat_link_codes WHERE tenant = $1 AND used_by IS NULL AND expires_at > clock_timestamp() LIMIT $2
) open`

const insertCode = `
INSERT INTO chat_link_codes (hash, channel, tenant, user_id, role, scopes, linked_by, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// CreateLinkCode records an offer. A tenant that has [agent.MaxLinkCodes] open ones is refused another with [agent.CodeRateLimited].
func (s *Store) CreateLinkCode(ctx context.Context, c agent.LinkCode) error {
	const op = "create link code"
	l := &c.Link
	if err := checkNames(named{"channel", l.Channel, true}, named{"tenant", l.Tenant, true}, named{"user_id", l.UserID, true},
		named{"role", l.Role, false}, named{"linked_by", l.LinkedBy, false}); err != nil {
		return err
	}
	if len(l.Scopes) > agent.MaxLinkScopes {
		return agent.FieldErrorf(agent.CodeOverflow, "scopes", "are %d, at most %d", len(l.Scopes), agent.MaxLinkScopes)
	}
	err := transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(sweepCodes, sweepRows)
		b.Queue(countCodes, l.Tenant, agent.MaxLinkCodes).QueryRow(func(row pgx.Row) error {
			var open int
			if err := row.Scan(&open); err != nil || open < agent.MaxLinkCodes {
				return err
			}
			return &agent.Error{
				Code: agent.CodeRateLimited, RetryAfter: time.Minute,
				Err: agent.Invalid("", "the tenant has %d codes that nobody has used yet", open).Err,
			}
		})
	}, func(b *pgx.Batch) error {
		b.Queue(insertCode, c.Hash, l.Channel, l.Tenant, l.UserID, l.Role, nonNil(l.Scopes), l.LinkedBy, c.ExpiresAt)
		return nil
	})
	return mapError(op, err)
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

const sweepFailures = `
DELETE FROM chat_link_failures WHERE (channel, chat_id) IN (
	SELECT channel, chat_id FROM chat_link_failures
	WHERE since < clock_timestamp() - $1::interval AND (channel, chat_id) <> ($3, $4) LIMIT $2 FOR UPDATE SKIP LOCKED)`

// Locks the row, and begins a new hour where the last one is over.
const openFailures = `
INSERT INTO chat_link_failures (channel, chat_id, since, failures) VALUES ($1, $2, clock_timestamp(), 0)
ON CONFLICT (channel, chat_id) DO UPDATE SET
	failures = CASE WHEN chat_link_failures.since < clock_timestamp() - $3::interval THEN 0 ELSE chat_link_failures.failures END,
	since = CASE WHEN chat_link_failures.since < clock_timestamp() - $3::interval THEN clock_timestamp() ELSE chat_link_failures.since END
RETURNING failures, since + $3::interval - clock_timestamp()`

const lockCode = `
SELECT channel, '', tenant, user_id, role, scopes, linked_by, clock_timestamp(), used_by, expires_at > clock_timestamp()
FROM chat_link_codes WHERE hash = $1 AND channel = $2 FOR UPDATE`

const (
	countFailure = `UPDATE chat_link_failures SET failures = failures + 1 WHERE channel = $1 AND chat_id = $2`
	useCode      = `UPDATE chat_link_codes SET used_by = $2 WHERE hash = $1`
	readLink     = `SELECT ` + linkColumns + ` FROM chat_links WHERE channel = $1 AND chat_id = $2`
	countLinks   = `SELECT count(*) FROM chat_links WHERE tenant = $1 AND user_id = $2 AND NOT (channel = $3 AND chat_id = $4)`
	putLink      = `
INSERT INTO chat_links (` + linkColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())
ON CONFLICT (channel, chat_id) DO UPDATE SET tenant = excluded.tenant, user_id = excluded.user_id, role = excluded.role,
	scopes = excluded.scopes, linked_by = excluded.linked_by, linked_at = excluded.linked_at
RETURNING ` + linkColumns
)

// RedeemLink links a chat with what a code offers, in place of an earlier link. The chat that used a code may say it again and is answered
// with its link. A wrong code is [agent.CodeNotFound] and counted; after [agent.MaxLinkFailures] of them within [agent.LinkWindow] every code
// is [agent.CodeRateLimited]. A user with [agent.MaxUserLinks] chats gets no more: [agent.CodeConflict].
func (s *Store) RedeemLink(ctx context.Context, c agent.Chat, code string) (agent.Link, error) {
	const op = "redeem link code"
	if err := checkNames(named{"channel", c.Channel, true}, named{"chat_id", c.ChatID, true}); err != nil {
		return agent.Link{}, err
	}
	var (
		made    agent.Link
		refusal error
	)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sweepFailures, agent.LinkWindow, sweepRows, c.Channel, c.ChatID); err != nil {
			return err
		}
		var (
			failures int
			wait     time.Duration
		)
		if err := tx.QueryRow(ctx, openFailures, c.Channel, c.ChatID, agent.LinkWindow).Scan(&failures, &wait); err != nil {
			return err
		}
		if failures >= agent.MaxLinkFailures {
			refusal = &agent.Error{Code: agent.CodeRateLimited, Op: op, RetryAfter: wait, Err: agent.ErrLinkCode}
			return nil
		}
		var err error
		made, refusal, err = redeem(ctx, tx, c, agent.HashLinkCode(code))
		if err == nil && agent.CodeOf(refusal) == agent.CodeNotFound {
			_, err = tx.Exec(ctx, countFailure, c.Channel, c.ChatID)
		}
		return err
	})
	if err != nil {
		return agent.Link{}, mapError(op, err)
	}
	return made, refusal
}

func redeem(ctx context.Context, tx pgx.Tx, c agent.Chat, hash []byte) (made agent.Link, refusal, err error) {
	unknown := &agent.Error{Code: agent.CodeNotFound, Op: "redeem link code", Err: agent.ErrLinkCode}
	var (
		offer  agent.Link
		usedBy *string
		good   bool
	)
	err = tx.QueryRow(ctx, lockCode, hash, c.Channel).Scan(&offer.Channel, &offer.ChatID, &offer.Tenant, &offer.UserID, &offer.Role,
		&offer.Scopes, &offer.LinkedBy, &offer.LinkedAt, &usedBy, &good)
	switch {
	case codeOf(err) == agent.CodeNotFound:
		return agent.Link{}, unknown, nil
	case err != nil:
		return agent.Link{}, nil, err
	case usedBy != nil && *usedBy == c.ChatID:
		return readAgain(ctx, tx, c, &offer, unknown)
	case usedBy != nil || !good:
		return agent.Link{}, unknown, nil
	}
	var links int
	if err := tx.QueryRow(ctx, countLinks, offer.Tenant, offer.UserID, c.Channel, c.ChatID).Scan(&links); err != nil {
		return agent.Link{}, nil, err
	}
	if links >= agent.MaxUserLinks {
		return agent.Link{}, agent.Errorf(agent.CodeConflict, "redeem link code", "the user has %d chats already", links), nil
	}
	if _, err := tx.Exec(ctx, useCode, hash, c.ChatID); err != nil {
		return agent.Link{}, nil, err
	}
	rows, err := tx.Query(ctx, putLink, c.Channel, c.ChatID, offer.Tenant, offer.UserID, offer.Role, offer.Scopes, offer.LinkedBy)
	if err != nil {
		return agent.Link{}, nil, err
	}
	made, err = pgx.CollectExactlyOneRow(rows, scanLink)
	return made, nil, err
}

// readAgain answers a chat that says its code again: with its link, if that is still the one that the code made.
func readAgain(ctx context.Context, tx pgx.Tx, c agent.Chat, offer *agent.Link, unknown error) (made agent.Link, refusal, err error) {
	rows, err := tx.Query(ctx, readLink, c.Channel, c.ChatID)
	if err != nil {
		return agent.Link{}, nil, err
	}
	made, err = pgx.CollectExactlyOneRow(rows, scanLink)
	switch {
	case codeOf(err) == agent.CodeNotFound, err == nil && (made.Tenant != offer.Tenant || made.UserID != offer.UserID):
		return agent.Link{}, unknown, nil
	default:
		return made, nil, err
	}
}

// ChatLink returns the link of a chat; [agent.CodeNotFound] when it has none.
func (s *Store) ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error) {
	rows, err := s.pool.Query(ctx, readLink, c.Channel, c.ChatID)
	if err != nil {
		return agent.Link{}, mapError("read link", err)
	}
	l, err := pgx.CollectExactlyOneRow(rows, scanLink)
	if codeOf(err) == agent.CodeNotFound && err != nil {
		return agent.Link{}, noLink(c)
	}
	return l, mapError("read link", err)
}

func noLink(c agent.Chat) error {
	return agent.Errorf(agent.CodeNotFound, "", "chat %.100q of %.100q is linked to no user", c.ChatID, c.Channel)
}

// Whoever speaks in the chat next is to begin anew.
const deleteLink = `
WITH gone AS (DELETE FROM chat_links WHERE tenant = $1 AND channel = $2 AND chat_id = $3 RETURNING channel, chat_id)
INSERT INTO chat_threads (channel, chat_id, thread) SELECT channel, chat_id, 1 FROM gone
ON CONFLICT (channel, chat_id) DO UPDATE SET thread = chat_threads.thread + 1`

// Unlink takes a link of a tenant away and puts the chat into another conversation; [agent.CodeNotFound] when the tenant has no such link.
func (s *Store) Unlink(ctx context.Context, tenant string, c agent.Chat) error {
	tag, err := s.pool.Exec(ctx, deleteLink, tenant, plain(c.Channel), plain(c.ChatID))
	if err == nil && tag.RowsAffected() == 0 {
		return noLink(c)
	}
	return mapError("unlink", err)
}

const readLinks = `
SELECT ` + linkColumns + ` FROM chat_links
WHERE tenant = $1 AND ($2 = '' OR channel = $2) AND ($3 = '' OR user_id = $3) AND (channel, chat_id) > ($4, $5)
ORDER BY channel, chat_id LIMIT $6`

// Links lists links of a tenant, by channel and chat.
func (s *Store) Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	var after agent.Chat
	err := readPageToken(q.PageToken, &after, func(c *agent.Chat) bool { return checkText("", c.Channel+c.ChatID, 2*maxNameBytes) == nil })
	if err != nil {
		return agent.LinkPage{}, err
	}
	if err := checkNames(named{"channel", q.Channel, false}, named{"user_id", q.UserID, false}); err != nil {
		return agent.LinkPage{}, err
	}
	size := q.PageSize
	if size <= 0 {
		size = defaultLinkPage
	}
	size = min(size, maxLinkPage)
	rows, err := s.pool.Query(ctx, readLinks, q.Tenant, q.Channel, q.UserID, after.Channel, after.ChatID, size+1)
	if err != nil {
		return agent.LinkPage{}, mapError("list links", err)
	}
	found, err := pgx.CollectRows(rows, scanLink)
	if err != nil {
		return agent.LinkPage{}, mapError("list links", err)
	}
	page := agent.LinkPage{Links: found}
	if len(found) > size {
		page.Links = found[:size]
		page.Next, err = pageToken(found[size-1].Chat)
	}
	return page, err
}
