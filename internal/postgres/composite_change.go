package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const changeComposite = `
UPDATE composites SET name = coalesce($3, name), description = coalesce($4, description), described = described OR $4 IS NOT NULL,
	enabled = coalesce($5, enabled), updated_at = clock_timestamp()
WHERE tenant = $1 AND id = $2`

const nameIsTaken = `
SELECT FROM composites WHERE tenant = $1 AND name = $2 AND id <> $3 AND name <> $3`

// ChangeComposite renames, describes or switches the composite of a name or an id, and answers what is stored. [agent.CodeNotFound] with
// Field "composite", [agent.CodeConflict] with Field "name" when another one of the tenant has it, [agent.CodeInvalid] for what no name or
// description can be.
func (s *Store) ChangeComposite(ctx context.Context, tenant, which string, change agent.CompositeChange) (agent.Composite, error) {
	const op = "change composite"
	if change.Name != nil && !compositeName.MatchString(*change.Name) {
		return agent.Composite{}, badCompositeName(*change.Name)
	}
	if change.Description != nil {
		if err := checkText("description", *change.Description, maxTextBytes); err != nil {
			return agent.Composite{}, err
		}
	}
	var (
		stored *agent.Composite
		taken  bool
	)
	const where = `WHERE c.tenant = $1 AND (c.id = $2 OR c.name = $2) ORDER BY c.id = $2 DESC LIMIT 1`
	err := transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockComposites, tenant)
		queueComposite(b, &stored, where, tenant, plain(which))
		if change.Name != nil {
			b.Queue(nameIsTaken, tenant, *change.Name, plain(which)).QueryRow(func(row pgx.Row) error {
				err := row.Scan()
				taken = !errors.Is(err, pgx.ErrNoRows)
				return optional(err)
			})
		}
	}, func(b *pgx.Batch) error {
		switch {
		case stored == nil:
			return agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %q", which)
		case taken:
			return agent.FieldErrorf(agent.CodeConflict, "name", "%q is taken", *change.Name)
		case change == agent.CompositeChange{}:
			return nil
		}
		b.Queue(changeComposite, tenant, stored.ID, change.Name, change.Description, change.Enabled)
		queueComposite(b, &stored, where, tenant, stored.ID)
		return nil
	})
	if err != nil {
		return agent.Composite{}, mapError(op, err)
	}
	return *stored, nil
}
