package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// maxExportBytes bounds the transcript and the results of an export, which is made in memory.
const maxExportBytes = 256 << 20

const readSession = `
SELECT created_at, inactive_at FROM sessions WHERE tenant = $1 AND session_id = $2`

const measureSession = `
SELECT (SELECT coalesce(sum(size), 0) FROM messages WHERE tenant = $1 AND session_id = $2) +
	(SELECT coalesce(sum(octet_length(r.output::text)), 0)
	FROM turns t JOIN agent_results r ON r.turn_id = t.turn_id WHERE t.tenant = $1 AND t.session_id = $2)`

const (
	exportMessages = `
SELECT position, turn_id, created_at, role, blocks FROM messages WHERE tenant = $1 AND session_id = $2 ORDER BY position`
	exportTurns = `
SELECT t.turn_id, t.state, t.agent, t.channel, t.user_id, t.created_at, t.finished_at, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = $2 ORDER BY t.seq`
	exportApprovals = approvalColumns + ` WHERE t.tenant = $1 AND t.session_id = $2 ORDER BY a.created_at, a.turn_id, a.approval_id`
	exportNotes     = `
SELECT name, body, updated_at FROM session_notes WHERE tenant = $1 AND session_id = $2 ORDER BY name`
	exportReferences = referenceColumns + `ORDER BY number`
)

// ExportSession returns everything that is kept of a session, as of one moment and in one round trip. A session that the tenant does not
// have is [agent.CodeNotFound]; one of more than 256 MiB [agent.CodeOverflow]: its pages are in [Store.Messages] and [Store.Turns].
func (s *Store) ExportSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionExport, error) {
	e := agent.SessionExport{Tenant: tenant, SessionID: id}
	err := snapshot(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(readSession, tenant, id).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&e.CreatedAt, &e.InactiveAt)
			inUTC(&e.CreatedAt, e.InactiveAt)
			if errors.Is(err, pgx.ErrNoRows) {
				return unknownSession(id)
			}
			return err
		})
		b.Queue(measureSession, tenant, id).QueryRow(func(row pgx.Row) error {
			var size int64
			if err := row.Scan(&size); err != nil {
				return err
			}
			if size > maxExportBytes {
				return agent.Errorf(agent.CodeOverflow, "", "session %q has %d bytes, an export at most %d", id, size, maxExportBytes)
			}
			return nil
		})
		queueExport(b, exportMessages, tenant, id, &e.Messages, scanExportMessage)
		queueExport(b, exportTurns, tenant, id, &e.Turns, scanExportTurn)
		queueExport(b, exportApprovals, tenant, id, &e.Approvals, scanApproval)
		queueExport(b, exportNotes, tenant, id, &e.Notes, scanExportNote)
		queueExport(b, exportReferences, tenant, id, &e.References, scanReference)
	})
	if err != nil {
		return agent.SessionExport{}, mapError("export session", err)
	}
	return e, nil
}

func queueExport[T any](b *pgx.Batch, sql, tenant string, id agent.SessionID, to *[]T, scan pgx.RowToFunc[T]) {
	b.Queue(sql, tenant, id).Query(func(rows pgx.Rows) (err error) {
		*to, err = pgx.CollectRows(rows, scan)
		return err
	})
}

func scanExportMessage(row pgx.CollectableRow) (m agent.ExportMessage, err error) {
	err = row.Scan(&m.Position, &m.TurnID, &m.CreatedAt, &m.Role, &m.Blocks)
	m.CreatedAt = m.CreatedAt.UTC()
	return m, err
}

func scanExportTurn(row pgx.CollectableRow) (t agent.ExportTurn, err error) {
	err = row.Scan(&t.TurnID, &t.State, &t.Agent, &t.Channel, &t.UserID, &t.CreatedAt, &t.FinishedAt, &t.Output)
	t.CreatedAt = t.CreatedAt.UTC()
	if t.FinishedAt != nil {
		t.FinishedAt = new(t.FinishedAt.UTC())
	}
	return t, err
}

func scanExportNote(row pgx.CollectableRow) (n agent.SessionNote, err error) {
	err = row.Scan(&n.Name, (*[]byte)(&n.Body), &n.UpdatedAt)
	n.UpdatedAt = n.UpdatedAt.UTC()
	return n, err
}

func unknownSession(id agent.SessionID) error {
	return agent.Errorf(agent.CodeNotFound, "", "session %q is not known", id)
}
