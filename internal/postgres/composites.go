package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// CompositeStore stores the pipelines that tenants use, and composites, which are tools made from frequent pipelines.
type CompositeStore struct{ *database }

// Bounds of composites.
const (
	maxComposites     = 1_000 // of a tenant
	maxCompositeName  = 64
	maxCompositeBytes = 256 << 10 // of parameters, and of the pipeline
)

// compositeName matches names under which models can call a tool.
var compositeName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// lockComposites serialises changes of a tenant's composites, whose names and shapes are unique in the tenant.
const lockComposites = `
SELECT pg_advisory_xact_lock(hashtextextended('turnstone composites ' || $1, 0))`

const compositeColumns = `
SELECT c.id, c.tenant, c.name, c.description, v.parameters, v.pipeline, c.shape, v.version, coalesce(s.uses, 0) AS uses, c.enabled, v.effect_free,
	c.created_at, c.updated_at
FROM composites c JOIN composite_versions v ON v.tenant = c.tenant AND v.id = c.id `

const compositeUses = `
LEFT JOIN pipeline_shapes s ON s.tenant = c.tenant AND s.shape = c.shape `

// readComposites reads the newest versions.
const readComposites = compositeColumns + `AND v.version = c.version` + compositeUses

// Composites lists the composites of a tenant by name, including disabled ones. The tenant "*" stands for all tenants, in their order. It
// returns at most 1,000.
func (s *CompositeStore) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.Composite],
		readComposites+`WHERE c.tenant = $1 OR $1 = '*' ORDER BY c.tenant, c.name LIMIT $2`, tenant, maxComposites)
	return found, mapError("list composites", err)
}

const readCompositeVersion = compositeColumns + compositeUses + `WHERE c.tenant = $1 AND c.id = $2 AND v.version = $3`

// Composite returns a version of a composite by id, with the composite's current name, description and Enabled, or [agent.CodeNotFound].
func (s *CompositeStore) Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error) {
	unknown := agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no version %d of composite %q", version, id)
	c, err := queryRow(ctx, s.pool, unknown, pgx.RowToStructByName[agent.Composite], readCompositeVersion, tenant, cleanText(id), version)
	return c, mapError("load composite", err)
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

// SaveComposite stores the composite of a shape if it is new or c.Version is the next one, and returns what is stored. A name that is taken
// gets a number as suffix. A later version does not change the name, Enabled, or a description that a person has written. The error is
// [agent.CodeOverflow] if the tenant already has 1,000 composites.
func (s *CompositeStore) SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error) {
	const op = "save composite"
	if err := checkComposite(&c); err != nil {
		return agent.Composite{}, err
	}
	var (
		taken  []string
		stored *agent.Composite
	)
	err := s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(lockComposites, c.Tenant)
		queueComposite(b, &stored, `WHERE c.tenant = $1 AND c.shape = $2`, c.Tenant, c.Shape)
		queueRows(b, &taken, pgx.RowTo[string], `SELECT name FROM composites WHERE tenant = $1`, c.Tenant)
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
			b.Queue(insertComposite, c.Tenant, c.ID, unusedName(c.Name, slices.Concat(taken, builtinTools())), cleanText(c.Description), c.Shape, c.Enabled)
		case c.Version == stored.Version+1:
			c.ID = stored.ID
			b.Queue(advanceComposite, c.Tenant, c.ID, c.Version, cleanText(c.Description))
		default:
			return nil
		}
		b.Queue(insertCompositeVersion, c.Tenant, c.ID, c.Version, rawColumn(c.Parameters), rawColumn(c.Pipeline), c.EffectFree)
		queueComposite(b, &stored, `WHERE c.tenant = $1 AND c.shape = $2`, c.Tenant, c.Shape)
		return nil
	})
	if err != nil {
		return agent.Composite{}, mapError(op, err)
	}
	return *stored, nil
}

// queueComposite queues a query for the newest version of a composite, and stores it in *into, or nil if there is none.
func queueComposite(b *pgx.Batch, into **agent.Composite, where string, args ...any) {
	b.Queue(readComposites+where, args...).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[agent.Composite])
		if *into = nil; len(found) > 0 {
			*into = &found[0]
		}
		return err
	})
}

func checkComposite(c *agent.Composite) error {
	if err := checkNames(nameField{"tenant", c.Tenant, true}, nameField{"shape", c.Shape, true}); err != nil {
		return err
	}
	if err := checkText("description", c.Description, maxTextBytes); err != nil {
		return err
	}
	switch {
	case !compositeName.MatchString(c.Name):
		return invalidCompositeName(c.Name)
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

func invalidCompositeName(name string) error {
	return agent.Invalid("name", "want 1 to %d of a-z 0-9 _, got %.100q", maxCompositeName, name)
}

// unusedName returns the name, with a number as suffix if the name is taken.
func unusedName(name string, taken []string) string {
	unused := name
	for n := 2; slices.Contains(taken, unused); n++ {
		suffix := fmt.Sprintf("_%d", n)
		unused = name[:min(len(name), maxCompositeName-len(suffix))] + suffix
	}
	return unused
}

const changeComposite = `
UPDATE composites SET name = coalesce($3, name), description = coalesce($4, description), described = described OR $4 IS NOT NULL,
	enabled = coalesce($5, enabled), updated_at = clock_timestamp()
WHERE tenant = $1 AND id = $2`

const nameIsTaken = `
SELECT FROM composites WHERE tenant = $1 AND name = $2 AND id <> $3 AND name <> $3`

// maxDescriptionBytes bounds descriptions that people write, because they are in the prompts of the tenant's agents.
const maxDescriptionBytes = 1_024

// builtinTools lists the names of built-in tools. Agents do not see a composite that has one of these names.
func builtinTools() []string {
	return []string{
		"execute_pipeline", "patch_workflow", "search_tools", "openapi_action", "delegate_to_agent", "get_delegated_job", "write_todos",
		"get_bibliography", "search_research", "search_clinical_trials", "search_openalex", "search_preprints", "search_pubmed", "search_web",
	}
}

// ChangeComposite changes the name, description or Enabled of a composite, which it finds by name or id, and returns what is stored. It removes
// line breaks and invisible characters from the description. The error is [agent.CodeNotFound] with Field "composite", [agent.CodeConflict]
// with Field "name" if another composite of the tenant or a built-in tool has the name, or [agent.CodeInvalid].
func (s *CompositeStore) ChangeComposite(ctx context.Context, tenant, nameOrID string, change agent.CompositeChange) (agent.Composite, error) {
	const op = "change composite"
	if change.Name != nil {
		if err := checkNewName(*change.Name); err != nil {
			return agent.Composite{}, err
		}
	}
	if change.Description != nil {
		if err := checkText("description", *change.Description, maxDescriptionBytes); err != nil {
			return agent.Composite{}, err
		}
		change.Description = new(visibleText(*change.Description))
	}
	var (
		stored *agent.Composite
		taken  bool
	)
	const where = `WHERE c.tenant = $1 AND (c.id = $2 OR c.name = $2) ORDER BY c.id = $2 DESC LIMIT 1`
	err := s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(lockComposites, tenant)
		queueComposite(b, &stored, where, tenant, cleanText(nameOrID))
		if change.Name != nil {
			b.Queue(nameIsTaken, tenant, *change.Name, cleanText(nameOrID)).QueryRow(scanFound(&taken))
		}
	}, func(b *pgx.Batch) error {
		switch {
		case stored == nil:
			return agent.FieldErrorf(agent.CodeNotFound, "composite", "there is no composite %q", nameOrID)
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

// checkNewName returns an error if models cannot call a tool of that name, or a built-in tool has the name.
func checkNewName(name string) error {
	switch {
	case !compositeName.MatchString(name):
		return invalidCompositeName(name)
	case strings.HasPrefix(name, "__"):
		return agent.Invalid("name", "begins with two underscores")
	case slices.Contains(builtinTools(), name):
		return agent.FieldErrorf(agent.CodeConflict, "name", "%q is the name of a built-in tool", name)
	default:
		return nil
	}
}

// visibleText returns a text on one line, without control characters and without characters that people cannot see but models read.
func visibleText(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector):
			return -1
		default:
			return r
		}
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
