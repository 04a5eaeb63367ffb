package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// maxExportBytes bounds the size of an export's messages and results, because an export is built in memory.
const maxExportBytes = 256 << 20

const readSession = `
SELECT title, created_at, inactive_at FROM sessions WHERE tenant = $1 AND session_id = $2`

const measureSession = `
SELECT (SELECT coalesce(sum(size), 0) FROM messages WHERE tenant = $1 AND session_id = $2) +
	(SELECT coalesce(sum(octet_length(r.output::text)), 0)
	FROM turns t JOIN agent_results r ON r.turn_id = t.turn_id WHERE t.tenant = $1 AND t.session_id = $2)`

const (
	exportMessages = `
SELECT m.position, ` + shownTurn + ` AS turn_id, m.created_at, m.role, m.blocks FROM messages m JOIN turns t ON t.turn_id = m.turn_id
WHERE m.tenant = $1 AND m.session_id = $2 ORDER BY m.position`
	exportTurns = `
SELECT ` + shownTurn + ` AS turn_id, t.state, t.agent, t.channel, t.user_id, t.created_at, t.finished_at, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = $2 ORDER BY t.seq`
	exportApprovals = approvalColumns + ` WHERE t.tenant = $1 AND t.session_id = $2 ORDER BY a.created_at, a.turn_id, a.approval_id`
	exportNotes     = `
SELECT name, body, updated_at FROM session_notes WHERE tenant = $1 AND session_id = $2 ORDER BY name`
	exportReferences = referenceColumns + `ORDER BY number`
)

// ExportSession returns everything that is stored of a session, from one snapshot of the database. The error is [agent.CodeNotFound] if the tenant does not
// have the session, and [agent.CodeOverflow] for more than 256 MiB. [SessionStore.Messages] and [SessionStore.Turns] return larger sessions in pages.
func (s *SessionStore) ExportSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionExport, error) {
	e := agent.SessionExport{Tenant: tenant, SessionID: id}
	err := s.snapshot(ctx, func(b *pgx.Batch) {
		b.Queue(readSession, tenant, id).QueryRow(scanOr(unknownSession(id), &e.Title, &e.CreatedAt, &e.InactiveAt))
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
		queueRows(b, &e.Messages, pgx.RowToStructByNameLax[agent.ExportMessage], exportMessages, tenant, id)
		queueRows(b, &e.Turns, pgx.RowToStructByName[agent.ExportTurn], exportTurns, tenant, id)
		queueRows(b, &e.Approvals, scanApproval, exportApprovals, tenant, id)
		queueRows(b, &e.Notes, pgx.RowToStructByName[agent.SessionNote], exportNotes, tenant, id)
		queueRows(b, &e.References, pgx.RowToStructByName[agent.Reference], exportReferences, tenant, id)
	})
	if err != nil {
		return agent.SessionExport{}, mapError("export session", err)
	}
	return e, nil
}
