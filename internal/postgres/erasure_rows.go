package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// maxErasedRows is the number of rows of a kind that one transaction erases.
const maxErasedRows = 1000

const unnameAudit = `SELECT set_config('turnstone.unnaming_audit', 'yes', true)`

func (k *erasedKind) tableName() string { return cmp.Or(k.table, k.name) }

func (k *erasedKind) countSQL() string {
	return `SELECT count(*) FROM ` + k.tableName() + ` WHERE ` + k.where
}

// eraseSQL returns the statement that erases a batch of rows.
func (k *erasedKind) eraseSQL() string {
	where := k.where
	if k.ready != "" {
		where += ` AND ` + k.ready
	}
	batch := ` WHERE ctid = ANY (ARRAY(SELECT ctid FROM ` + k.tableName() + ` WHERE ` + where + ` LIMIT @limit FOR UPDATE))`
	if k.set != "" {
		return `UPDATE ` + k.tableName() + ` SET ` + k.set + batch
	}
	return `DELETE FROM ` + k.tableName() + batch
}

// EraseRows erases the rows of one kind after the other and returns once it has erased 1,000 rows of one kind, or the rows of all kinds. Each
// kind is erased and counted in one transaction, so that the count is right even after a crash. more is false if nothing is left to erase.
func (s *ErasureStore) EraseRows(ctx context.Context, tenant, id string) (more bool, err error) {
	for _, k := range erasedKinds() {
		var n int64
		err := s.erasureTx(ctx, "erase "+k.name, tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) (err error) {
			n, err = k.eraseBatch(ctx, tx, args)
			return err
		})
		if err != nil {
			return false, err
		}
		if n >= maxErasedRows && k.sql == nil {
			return true, nil
		}
	}
	return false, s.erasureTx(ctx, "erase notes", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		// From now on the notes of these sessions no longer contain erased data.
		_, err := tx.Exec(ctx, `UPDATE erasure_marks SET done = true WHERE erasure_id = @id AND kind IN ('session', 'shared') AND NOT done`, args)
		return err
	})
}

// eraseBatch erases and counts a batch of rows, and returns their number.
func (k *erasedKind) eraseBatch(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) (n int64, err error) {
	args["limit"] = maxErasedRows
	if k.tableName() == "audit_log" {
		if _, err := tx.Exec(ctx, unnameAudit); err != nil {
			return 0, err
		}
	}
	statements := k.sql
	if statements == nil {
		statements = []string{k.eraseSQL()}
	}
	for _, sql := range statements {
		tag, err := tx.Exec(ctx, sql, args)
		if err != nil {
			return 0, err
		}
		n = tag.RowsAffected()
	}
	if k.set == "" && k.sql == nil {
		return n, addToCount(ctx, tx, args, k.name, n, 0, 0)
	}
	return n, addToCount(ctx, tx, args, k.name, 0, n, 0)
}

// CheckErasure returns the number of rows that still have to be erased.
func (s *ErasureStore) CheckErasure(ctx context.Context, tenant, id string) (remaining int64, err error) {
	err = s.erasureTx(ctx, "check erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		kinds, err := countKinds(ctx, tx, args)
		for i := range kinds {
			remaining += kinds[i].Remaining
		}
		return err
	})
	return remaining, err
}

// countKinds counts the remaining rows of each kind.
func countKinds(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) ([]erasure.Kind, error) {
	all := erasedKinds()
	kinds := make([]erasure.Kind, len(all))
	for i := range all {
		kinds[i] = erasure.Kind{Name: all[i].name, Kept: all[i].why}
		if err := tx.QueryRow(ctx, all[i].countSQL(), args).Scan(&kinds[i].Remaining); err != nil {
			return nil, err
		}
		if all[i].ready != "" && kinds[i].Remaining > 0 {
			kinds[i].Left = "a turn of another user still needs it"
		}
	}
	return kinds, nil
}

const readErasureCounts = `
SELECT kind, removed, unnamed, bytes FROM erasure_counts WHERE erasure_id = @id`

const countMarks = `
SELECT count(*) FILTER (WHERE kind = 'turn'), count(*) FILTER (WHERE kind = 'session'), count(*) FILTER (WHERE kind = 'shared'),
	count(*) FILTER (WHERE kind = 'execution'), count(*) FILTER (WHERE kind = 'execution' AND NOT done),
	count(*) FILTER (WHERE kind = 'content'), count(*) FILTER (WHERE kind = 'content' AND NOT done)
FROM erasure_marks WHERE erasure_id = @id`

const endErasure = `
UPDATE erasures SET status = @status, report = @report::json, digest = @digest, user_id = NULL, finished_at = @finished WHERE erasure_id = @id`

const auditErasure = `
INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail)
VALUES (@finished, @tenant, '', '', '', @action, 'erasure/' || @id, @outcome, '', '', '', jsonb_build_object(
	'status', @status::text, 'dry_run', @dry::boolean, 'digest', @digest::text, 'pseudonym', @pseudonym::text))`

// FinishErasure ends an erasure in one transaction: it counts the remaining rows, stores the report with its digest, adds the digest to the audit
// trail, and deletes the user's id and all marks. If the erasure has ended, it only returns the erasure.
func (s *ErasureStore) FinishErasure(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	err := s.erasureTx(ctx, "finish erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		r, err := makeReport(ctx, tx, args)
		if err != nil {
			return err
		}
		digest, err := r.Digest()
		if err != nil {
			return err
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		args["status"], args["report"], args["digest"], args["finished"] = r.Status, text, digest, r.FinishedAt
		args["dry"], args["action"], args["outcome"] = r.DryRun, erasure.ActionWrite, agent.AuditAllowed
		return execAll(ctx, tx, []string{endErasure, auditErasure, `DELETE FROM erasure_marks WHERE erasure_id = @id`}, args)
	})
	if err != nil && agent.CodeOf(err) != agent.CodeConflict {
		return erasure.Erasure{}, err
	}
	return s.Erasure(ctx, tenant, id)
}

// makeReport returns the report of an erasure.
func makeReport(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) (*erasure.Report, error) {
	r := &erasure.Report{Pseudonym: args["pseudonym"].(string)} //nolint:forcetypeassert // lockErasure sets a string
	err := tx.QueryRow(ctx, `SELECT erasure_id, tenant, subject, salt, requested_by, reason, dry_run, coalesce(started_at, created_at), round
		FROM erasures WHERE erasure_id = @id`, args).
		Scan(&r.ErasureID, &r.Tenant, &r.Subject, &r.Salt, &r.RequestedBy, &r.Reason, &r.DryRun, &r.StartedAt, &r.Rounds)
	if err != nil {
		return nil, err
	}
	var openExecutions int64
	if err := tx.QueryRow(ctx, countMarks, args).Scan(&r.Turns, &r.Sessions, &r.Shared, &r.Executions.Found, &openExecutions, &r.Content.Found,
		&r.Content.Pending); err != nil {
		return nil, err
	}
	if r.Kinds, err = countKinds(ctx, tx, args); err != nil {
		return nil, err
	}
	r.Kept = keptKinds()
	r.StartedAt, r.FinishedAt = r.StartedAt.UTC().Truncate(time.Microsecond), time.Now().UTC().Truncate(time.Microsecond)
	if r.DryRun {
		for i := range r.Kinds {
			r.Kinds[i].Found, r.Kinds[i].Remaining, r.Kinds[i].Left = r.Kinds[i].Remaining, 0, ""
		}
		r.Content.Pending = 0
	} else if err := addCounts(ctx, tx, args, r); err != nil {
		return nil, err
	}
	r.Status = erasure.StatusCompleted
	if !r.DryRun && (r.Remaining() > 0 || openExecutions > 0 || r.Content.Pending > 0) {
		r.Status = erasure.StatusIncomplete
	}
	return r, nil
}

// keptKinds returns the data that an erasure does not change, each with the reason.
func keptKinds() []erasure.Kind {
	var kinds []erasure.Kind
	for _, s := range sparedTables() {
		kinds = append(kinds, erasure.Kind{Name: s[0], Kept: s[1]})
	}
	return append(kinds, erasure.Kind{
		Name: "offloaded payloads", Kept: "no history names them any more; they are removed after temporal.offload_keep",
	})
}

func addCounts(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, r *erasure.Report) error {
	rows, err := tx.Query(ctx, readErasureCounts, args)
	if err != nil {
		return err
	}
	var (
		kind                    string
		removed, unnamed, bytes int64
	)
	_, err = pgx.ForEachRow(rows, []any{&kind, &removed, &unnamed, &bytes}, func() error {
		switch kind {
		case ":" + erasure.MarkExecution:
			r.Executions.Deleted = removed
		case ":" + erasure.MarkContent:
			r.Content.Removed, r.Content.Bytes = removed, bytes
		case ":shared":
			r.Content.Shared = removed
		default:
			if i := slices.IndexFunc(r.Kinds, func(k erasure.Kind) bool { return k.Name == kind }); i >= 0 {
				r.Kinds[i].Removed, r.Kinds[i].Unnamed = removed, unnamed
			}
		}
		return nil
	})
	return err
}
