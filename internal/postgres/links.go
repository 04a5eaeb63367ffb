package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// LinkStore stores the links between chats and users, and the codes that create them.
type LinkStore struct{ *database }

const (
	defaultLinkPage = 50
	maxLinkPage     = 500
	sweepRows       = 1000 // the maximum of old rows that a write removes
)

const linkColumns = `channel, chat_id, tenant, user_id, role, scopes, linked_by, linked_at`

// sweepCodes keeps a used code for a day, because the chat that used it may send it again.
const sweepCodes = `
DELETE FROM chat_link_codes WHERE hash IN (
	SELECT hash FROM chat_link_codes WHERE expires_at < clock_timestamp() - interval '1 day' LIMIT $1 FOR UPDATE SKIP LOCKED)`

const countCodes = `
SELECT count(*) FROM (
	SELECT FROM chat_link_codes WHERE tenant = $1 AND used_by IS NULL AND expires_at > clock_timestamp() LIMIT $2
) open`

const insertCode = `
INSERT INTO chat_link_codes (hash, channel, tenant, user_id, role, scopes, linked_by, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// CreateLinkCode stores a code. The error is [agent.CodeRateLimited] if the tenant already has [agent.MaxLinkCodes] unused codes.
func (s *LinkStore) CreateLinkCode(ctx context.Context, c agent.LinkCode) error {
	l := &c.Link
	if err := checkNames(nameField{"channel", l.Channel, true}, nameField{"tenant", l.Tenant, true}, nameField{"user_id", l.UserID, true},
		nameField{"role", l.Role, false}, nameField{"linked_by", l.LinkedBy, false}); err != nil {
		return err
	}
	if len(l.Scopes) > agent.MaxLinkScopes {
		return agent.FieldErrorf(agent.CodeOverflow, "scopes", "are %d, at most %d", len(l.Scopes), agent.MaxLinkScopes)
	}
	err := s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(sweepCodes, sweepRows)
		b.Queue(countCodes, l.Tenant, agent.MaxLinkCodes).QueryRow(func(row pgx.Row) error {
			var open int
			if err := row.Scan(&open); err != nil || open < agent.MaxLinkCodes {
				return err
			}
			return &agent.Error{
				Code: agent.CodeRateLimited, RetryAfter: time.Minute, Err: fmt.Errorf("the tenant has %d codes that nobody has used yet", open),
			}
		})
	}, func(b *pgx.Batch) error {
		b.Queue(insertCode, c.Hash, l.Channel, l.Tenant, l.UserID, l.Role, append([]string{}, l.Scopes...), l.LinkedBy, c.ExpiresAt)
		return nil
	})
	return mapError("create link code", err)
}

const sweepFailures = `
DELETE FROM chat_link_failures WHERE (channel, chat_id) IN (
	SELECT channel, chat_id FROM chat_link_failures
	WHERE since < clock_timestamp() - $1::interval AND (channel, chat_id) <> ($3, $4) LIMIT $2 FOR UPDATE SKIP LOCKED)`

// openFailures locks the row of a chat, and begins a new period if the last one is over.
const openFailures = `
INSERT INTO chat_link_failures (channel, chat_id, since, failures) VALUES ($1, $2, clock_timestamp(), 0)
ON CONFLICT (channel, chat_id) DO UPDATE SET
	failures = CASE WHEN chat_link_failures.since < clock_timestamp() - $3::interval THEN 0 ELSE chat_link_failures.failures END,
	since = CASE WHEN chat_link_failures.since < clock_timestamp() - $3::interval THEN clock_timestamp() ELSE chat_link_failures.since END
RETURNING failures, since + $3::interval - clock_timestamp()`

const lockCode = `
SELECT tenant, user_id, role, scopes, linked_by, used_by, expires_at > clock_timestamp()
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

// RedeemLink links a chat with the user of a code, and replaces an earlier link. If the chat sends the code again, it gets the link again. A wrong code
// is [agent.CodeNotFound]; after [agent.MaxLinkFailures] wrong codes within [agent.LinkWindow] every code is [agent.CodeRateLimited]. The error is
// [agent.CodeConflict] if the user already has [agent.MaxUserLinks] chats.
func (s *LinkStore) RedeemLink(ctx context.Context, c agent.Chat, code string) (agent.Link, error) {
	const op = "redeem link code"
	if err := checkNames(nameField{"channel", c.Channel, true}, nameField{"chat_id", c.ChatID, true}); err != nil {
		return agent.Link{}, err
	}
	var (
		link    agent.Link
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
		link, refusal, err = redeemCode(ctx, tx, c, agent.HashLinkCode(code))
		if err == nil && agent.CodeOf(refusal) == agent.CodeNotFound {
			_, err = tx.Exec(ctx, countFailure, c.Channel, c.ChatID)
		}
		return err
	})
	if err != nil {
		return agent.Link{}, mapError(op, err)
	}
	return link, refusal
}

// redeemCode links a chat with the user of a code. After a refusal the transaction still has to be committed; after an error it must not be.
func redeemCode(ctx context.Context, tx pgx.Tx, c agent.Chat, hash []byte) (link agent.Link, refusal, err error) {
	unknown := &agent.Error{Code: agent.CodeNotFound, Op: "redeem link code", Err: agent.ErrLinkCode}
	var (
		offer  agent.Link
		usedBy *string
		isOpen bool
	)
	err = tx.QueryRow(ctx, lockCode, hash, c.Channel).
		Scan(&offer.Tenant, &offer.UserID, &offer.Role, &offer.Scopes, &offer.LinkedBy, &usedBy, &isOpen)
	switch {
	case codeOf(err) == agent.CodeNotFound:
		return agent.Link{}, unknown, nil
	case err != nil:
		return agent.Link{}, nil, err
	case usedBy != nil && *usedBy == c.ChatID: // sent again: return the link, if it is still that of the code
		link, err := queryRow(ctx, tx, nil, pgx.RowToStructByName[agent.Link], readLink, c.Channel, c.ChatID)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && (link.Tenant != offer.Tenant || link.UserID != offer.UserID) {
			return agent.Link{}, unknown, nil
		}
		return link, nil, err
	case usedBy != nil || !isOpen:
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
	link, err = queryRow(ctx, tx, nil, pgx.RowToStructByName[agent.Link], putLink, c.Channel, c.ChatID, offer.Tenant, offer.UserID, offer.Role,
		offer.Scopes, offer.LinkedBy)
	return link, nil, err
}

// ChatLink returns the link of a chat. The error is [agent.CodeNotFound] if it has none.
func (s *LinkStore) ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error) {
	l, err := queryRow(ctx, s.pool, unlinkedChat(c), pgx.RowToStructByName[agent.Link], readLink, c.Channel, c.ChatID)
	return l, mapError("read link", err)
}

func unlinkedChat(c agent.Chat) error {
	return agent.Errorf(agent.CodeNotFound, "", "chat %.100q of %.100q is linked to no user", c.ChatID, c.Channel)
}

// deleteLink also begins a new conversation, because the next person in the chat must not see the old one.
const deleteLink = `
WITH gone AS (DELETE FROM chat_links WHERE tenant = $1 AND channel = $2 AND chat_id = $3 RETURNING channel, chat_id)
INSERT INTO chat_threads (channel, chat_id, thread) SELECT channel, chat_id, 1 FROM gone
ON CONFLICT (channel, chat_id) DO UPDATE SET thread = chat_threads.thread + 1`

// Unlink removes a link of a tenant and begins a new conversation in the chat. The error is [agent.CodeNotFound] if the tenant does not have the link.
func (s *LinkStore) Unlink(ctx context.Context, tenant string, c agent.Chat) error {
	tag, err := s.pool.Exec(ctx, deleteLink, tenant, cleanText(c.Channel), cleanText(c.ChatID))
	if err == nil && tag.RowsAffected() == 0 {
		return unlinkedChat(c)
	}
	return mapError("unlink", err)
}

const readLinks = `
SELECT ` + linkColumns + ` FROM chat_links
WHERE tenant = $1 AND ($2 = '' OR channel = $2) AND ($3 = '' OR user_id = $3) AND (channel, chat_id) > ($4, $5)
ORDER BY channel, chat_id LIMIT $6`

// Links lists the links of a tenant by channel and chat.
func (s *LinkStore) Links(ctx context.Context, q agent.LinkQuery) (page agent.LinkPage, err error) {
	var after agent.Chat
	err = decodePageToken(q.PageToken, &after, func(c *agent.Chat) bool { return checkText("", c.Channel+c.ChatID, 2*maxNameBytes) == nil })
	if err != nil {
		return page, err
	}
	if err := checkNames(nameField{"channel", q.Channel, false}, nameField{"user_id", q.UserID, false}); err != nil {
		return page, err
	}
	size := min(cmp.Or(max(q.PageSize, 0), defaultLinkPage), maxLinkPage)
	page.Links, err = queryRows(ctx, s.pool, pgx.RowToStructByName[agent.Link], readLinks, q.Tenant, q.Channel, q.UserID, after.Channel,
		after.ChatID, size+1)
	if err == nil {
		page.Links, page.Next, err = cutPage(page.Links, size, func(last *agent.Link) any { return last.Chat })
	}
	return page, mapError("list links", err)
}
