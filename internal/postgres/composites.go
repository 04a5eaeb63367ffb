package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of composites.
const (
	maxComposites     = 1_000 // of a tenant
	maxCompositeName  = 64
	maxCompositeBytes = 256 << 10 // of parameters, and of the pipeline
)

// compositeName is what models can call a tool.
var compositeName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// Names and shapes are each once in a tenant: who makes or renames composites of one does so alone.
const lockComposites = `
SELECT pg_advisory_xact_lock(hashtextextended('turnstone composites ' || $1, 0))`

const compositeColumns = `
SELECT c.id, c.tenant, c.name, c.description, v.parameters, v.pipeline, c.shape, v.version, coalesce(s.uses, 0), c.enabled, v.effect_free,
	c.created_at, c.updated_at
FROM composites c JOIN composite_versions v ON v.tenant = c.tenant AND v.id = c.id `

const compositeUses = `
LEFT JOIN pipeline_shapes s ON s.tenant = c.tenant AND s.shape = c.shape `

// readComposites are newest versions.
const readComposites = compositeColumns + `AND v.version = c.version` + compositeUses

func scanComposite(row pgx.CollectableRow) (c agent.Composite, err error) {
	err = row.Scan(&c.ID, &c.Tenant, &c.Name, &c.Description, (*[]byte)(&c.Parameters), (*[]byte)(&c.Pipeline), &c.Shape, &c.Version, &c.Uses,
		&c.Enabled, &c.EffectFree, &c.CreatedAt, &c.UpdatedAt)
	inUTC(&c.CreatedAt, &c.UpdatedAt)
	return c, err
}

// Composites lists those of a tenant by name, disabled ones included; "*" is every tenant, tenant by tenant. There are at most 1,000 of each.
func (s *Store) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	const op = "list composites"
	rows, err := s.pool.Query(ctx, readComposites+`WHERE c.tenant = $1 OR $1 = '*' ORDER BY c.tenant, c.name LIMIT $2`, tenant, maxComposites)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanComposite)
	return found, mapError(op, err)
}

const readCompositeVersion = compositeColumns + compositeUses + `WHERE c.tenant = $1 AND c.id = $2 AND v.version = $3`

// Composite returns one version by id, with the name, description and switch that the composite has now; [agent.CodeNotFound].
func (s *Store) Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error) {
	const op = "load composite"
	rows, err := s.pool.Query(ctx, readCompositeVersion, tenant, plain(id), version)
	if err != nil {
		return agent.Composite{}, mapError(op, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanComposite)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.Composite{}, agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no version %d of composite %q", version, id)
	}
	return c, mapError(op, err)
}

const insertComposite = `
INSERT INTO composites (tenant, id, name, description, shape, version, enabled, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, 1, $6, now(), now())`

const advanceComposite = `
UPDATE composites SET version = $3, description = CASE WHEN described THEN description ELSE $4 END, updated_at = clock_timestamp()
WHERE tenant = $1 AND id = $2`

const insertCompositeVersion = `
INSERT INTO composite_versions (tenant, id, version, parameters, pipeline, effect_free, created_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())`

// SaveComposite stores what a shape was promoted to, as version 1, or the version behind the newest; any other changes nothing. It answers
// what is stored. A name that is taken gets a number behind it, and stays; so do a person's description and switch. [agent.CodeOverflow]
// for the 1,001st of a tenant.
func (s *Store) SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error) {
	const op = "save composite"
	if err := checkComposite(&c); err != nil {
		return agent.Composite{}, err
	}
	var (
		taken  []string
		stored *agent.Composite
	)
	err := transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockComposites, c.Tenant)
		queueComposite(b, &stored, `WHERE c.tenant = $1 AND c.shape = $2`, c.Tenant, c.Shape)
		b.Queue(`SELECT name FROM composites WHERE tenant = $1`, c.Tenant).Query(func(rows pgx.Rows) (err error) {
			taken, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}, func(b *pgx.Batch) error {
		switch {
		case stored == nil && len(taken) >= maxComposites:
			return agent.Errorf(agent.CodeOverflow, op, "tenant %q has %d composites, the most there can be", c.Tenant, len(taken))
		case stored == nil:
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			c.ID, c.Version = id.String(), 1
			b.Queue(insertComposite, c.Tenant, c.ID, freeName(c.Name, slices.Concat(taken, builtinTools())), plain(c.Description), c.Shape, c.Enabled)
		case c.Version == stored.Version+1:
			c.ID = stored.ID
			b.Queue(advanceComposite, c.Tenant, c.ID, c.Version, plain(c.Description))
		default:
			return nil
		}
		b.Queue(insertCompositeVersion, c.Tenant, c.ID, c.Version, verbatim(c.Parameters), verbatim(c.Pipeline), c.EffectFree)
		queueComposite(b, &stored, `WHERE c.tenant = $1 AND c.shape = $2`, c.Tenant, c.Shape)
		return nil
	})
	if err != nil {
		return agent.Composite{}, mapError(op, err)
	}
	return *stored, nil
}

// queueComposite reads the newest version of a composite into to, nil when there is none.
func queueComposite(b *pgx.Batch, to **agent.Composite, where string, args ...any) {
	b.Queue(readComposites+where, args...).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanComposite)
		if *to = nil; len(found) > 0 {
			*to = &found[0]
		}
		return err
	})
}

func checkComposite(c *agent.Composite) error {
	if err := checkNames(named{"tenant", c.Tenant, true}, named{"shape", c.Shape, true}); err != nil {
		return err
	}
	if err := checkText("description", c.Description, maxTextBytes); err != nil {
		return err
	}
	switch {
	case !compositeName.MatchString(c.Name):
		return badCompositeName(c.Name)
	case len(c.Parameters) > maxCompositeBytes:
		return agent.FieldErrorf(agent.CodeOverflow, "parameters", "are %d bytes, at most %d", len(c.Parameters), maxCompositeBytes)
	case len(c.Pipeline) > maxCompositeBytes:
		return agent.FieldErrorf(agent.CodeOverflow, "pipeline", "is %d bytes, at most %d", len(c.Pipeline), maxCompositeBytes)
	case !isJSON(c.Parameters):
		return agent.Invalid("parameters", "are not JSON")
	case !isJSON(c.Pipeline):
		return agent.Invalid("pipeline", "is not JSON")
	}
	return nil
}

func badCompositeName(name string) error {
	return agent.Invalid("name", "want 1 to %d of a-z 0-9 _, got %.100q", maxCompositeName, name)
}

// freeName is the name, with a number behind it where it is taken.
func freeName(name string, taken []string) string {
	free := name
	for n := 2; slices.Contains(taken, free); n++ {
		suffix := fmt.Sprintf("_%d", n)
		free = name[:min(len(name), maxCompositeName-len(suffix))] + suffix
	}
	return free
}
