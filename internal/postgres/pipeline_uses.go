package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what is stored about a tenant's pipelines.
const (
	maxPipelineBytes  = 256 << 10
	maxPipelineShapes = 10_000 // of a tenant, without those of composites
	maxPipelineUses   = 2_000  // of a tenant; a call that is repeated after that many other calls counts again
	maxSamples        = 16     // of a shape
)

// lockShape inserts or locks the row of a shape, so that its calls are counted one after the other.
const lockShape = `
INSERT INTO pipeline_shapes (tenant, shape, uses, used_at) VALUES ($1, $2, 0, clock_timestamp())
ON CONFLICT (tenant, shape) DO UPDATE SET used_at = excluded.used_at`

const countUse = `
WITH fresh AS (
	INSERT INTO pipeline_uses (tenant, key, at) VALUES ($1, $3, clock_timestamp()) ON CONFLICT DO NOTHING RETURNING tenant, at
), counted AS (
	UPDATE pipeline_shapes s SET uses = s.uses + 1 FROM fresh WHERE s.tenant = $1 AND s.shape = $2
)
INSERT INTO pipeline_samples (tenant, shape, digest, steps, used_at) SELECT $1, $2, $4, $5, at FROM fresh
ON CONFLICT (tenant, shape, digest) DO UPDATE SET used_at = excluded.used_at`

// The evictions delete two rows for each new one, so that a number above its bound shrinks. evictShapes skips shapes that are locked.
const (
	evictUses = `
DELETE FROM pipeline_uses WHERE tenant = $1 AND key = ANY (ARRAY(
	SELECT key FROM pipeline_uses WHERE tenant = $1 ORDER BY at DESC OFFSET $2 LIMIT 2))`
	evictSamples = `
DELETE FROM pipeline_samples WHERE tenant = $1 AND shape = $2 AND digest = ANY (ARRAY(
	SELECT digest FROM pipeline_samples WHERE tenant = $1 AND shape = $2 ORDER BY used_at DESC OFFSET $3))`
	evictShapes = `
DELETE FROM pipeline_shapes WHERE tenant = $1 AND shape = ANY (ARRAY(
	SELECT shape FROM pipeline_shapes WHERE tenant = $1 AND shape = ANY (ARRAY(
		SELECT s.shape FROM pipeline_shapes s
		WHERE tenant = $1 AND NOT EXISTS (SELECT FROM composites c WHERE c.tenant = s.tenant AND c.shape = s.shape)
			AND (SELECT uses = 1 FROM pipeline_shapes n WHERE n.tenant = $1 AND n.shape = $2)
		ORDER BY used_at DESC OFFSET $3 LIMIT 2)) FOR UPDATE SKIP LOCKED))`
)

const readUses = `
SELECT uses, ARRAY(
	SELECT steps::text FROM pipeline_samples p WHERE p.tenant = s.tenant AND p.shape = s.shape ORDER BY used_at DESC)
FROM pipeline_shapes s WHERE tenant = $1 AND shape = $2`

// UsePipeline counts a call once, by its key in the tenant, and returns what is stored about its shape.
func (s *CompositeStore) UsePipeline(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	const op = "count pipeline"
	if err := checkNames(nameField{"tenant", use.Tenant, true}, nameField{"key", use.Key, true}, nameField{"shape", use.Shape, true}); err != nil {
		return agent.PipelineUses{}, err
	}
	if len(use.Steps) > maxPipelineBytes {
		return agent.PipelineUses{}, agent.FieldErrorf(agent.CodeOverflow, "steps", "are %d bytes, at most %d", len(use.Steps), maxPipelineBytes)
	}
	if !isJSON(use.Steps) {
		return agent.PipelineUses{}, agent.Invalid("steps", "are not JSON")
	}
	var (
		b      pgx.Batch
		uses   agent.PipelineUses
		digest = sha256.Sum256(use.Steps)
	)
	b.Queue(lockShape, use.Tenant, use.Shape)
	b.Queue(countUse, use.Tenant, use.Shape, use.Key, digest[:], []byte(use.Steps))
	b.Queue(evictUses, use.Tenant, maxPipelineUses)
	b.Queue(evictSamples, use.Tenant, use.Shape, maxSamples)
	b.Queue(evictShapes, use.Tenant, use.Shape, maxPipelineShapes)
	b.Queue(readUses, use.Tenant, use.Shape).QueryRow(func(row pgx.Row) error {
		var samples []string
		if err := row.Scan(&uses.Count, &samples); err != nil {
			return err
		}
		for _, sample := range samples {
			uses.Samples = append(uses.Samples, json.RawMessage(sample))
		}
		return nil
	})
	queueComposite(&b, &uses.Composite, `WHERE c.tenant = $1 AND c.shape = $2`, use.Tenant, use.Shape)
	if err := s.send(ctx, &b); err != nil {
		return agent.PipelineUses{}, mapError(op, err)
	}
	return uses, nil
}
