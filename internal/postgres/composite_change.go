package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const changeComposite = `
UPDATE composites SET name = coalesce($3, name), description = coalesce($4, description), described = described OR $4 IS NOT NULL,
	enabled = coalesce($5, enabled), updated_at = clock_timestamp()
WHERE tenant = $1 AND id = $2`

const nameIsTaken = `
SELECT FROM composites WHERE tenant = $1 AND name = $2 AND id <> $3 AND name <> $3`

// maxDescribed bounds what a person says of a composite, in bytes: it is in the prompts of the tenant's agents.
const maxDescribed = 1_024

// builtinTools lists names that agents know as other tools: a composite of such a name would not be seen.
func builtinTools() []string {
	return []string{
		"execute_pipeline", "patch_workflow", "search_tools", "openapi_action", "delegate_to_agent", "get_delegated_job", "write_todos",
		"get_bibliography", "search_research", "search_clinical_trials", "search_openalex", "search_preprints", "search_pubmed", "search_web",
	}
}

// ChangeComposite renames, describes or switches the composite of a name or an id, and answers what is stored. [agent.CodeNotFound] with
// Field "composite", [agent.CodeConflict] with Field "name" when another one of the tenant has it or a built-in tool, [agent.CodeInvalid] for
// what no name or description can be. A description is kept without line breaks and without characters that nobody sees.
func (s *Store) ChangeComposite(ctx context.Context, tenant, which string, change agent.CompositeChange) (agent.Composite, error) {
	const op = "change composite"
	if change.Name != nil {
		if err := checkNewName(*change.Name); err != nil {
			return agent.Composite{}, err
		}
	}
	if change.Description != nil {
		if err := checkText("description", *change.Description, maxDescribed); err != nil {
			return agent.Composite{}, err
		}
		change.Description = new(visible(*change.Description))
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

// checkNewName holds a name to what models can call, and to what is not another tool.
func checkNewName(name string) error {
	switch {
	case !compositeName.MatchString(name):
		return badCompositeName(name)
	case strings.HasPrefix(name, "__"):
		return agent.Invalid("name", "begins with two underscores")
	case slices.Contains(builtinTools(), name):
		return agent.FieldErrorf(agent.CodeConflict, "name", "%q is the name of a built-in tool", name)
	default:
		return nil
	}
}

// visible is a text in one line, without control characters and without those that hide instructions from people but not from models.
func visible(text string) string {
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
