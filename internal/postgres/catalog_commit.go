package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// The time of a commit is read when the head is locked, so that times follow revisions.
const readClock = `
SELECT clock_timestamp()`

const readMissing = `
SELECT g.n - 1 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS g (kind, tenant, name, version, n)
WHERE NOT EXISTS (
	SELECT FROM catalog_documents d
	WHERE d.kind = g.kind AND d.tenant = g.tenant AND d.name = g.name AND d.version = g.version AND NOT d.deleted)
ORDER BY g.n LIMIT 1`

const advanceHead = `
UPDATE catalog_head SET revision = $1`

// A document without a body is deleted. Both inserts see the documents as they were.
const writeDocuments = `
WITH given AS (
	SELECT g.kind, g.tenant, g.name, g.version, g.body::json AS body
	FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::text[]) AS g (kind, tenant, name, version, body)
), history AS (
	INSERT INTO catalog_history (revision, kind, tenant, name, version, action, before, after, size, at, by, source, comment)
	SELECT $1, g.kind, g.tenant, g.name, g.version,
		CASE WHEN g.body IS NULL THEN 'deleted' WHEN d.body IS NULL THEN 'created' ELSE 'updated' END,
		d.body, g.body, coalesce(octet_length(d.body::text), 0) + coalesce(octet_length(g.body::text), 0), $2, $3, $4, $5
	FROM given g LEFT JOIN catalog_documents d
		ON d.kind = g.kind AND d.tenant = g.tenant AND d.name = g.name AND d.version = g.version
)
INSERT INTO catalog_documents (kind, tenant, name, version, body, revision, source, updated_at, updated_by, deleted)
SELECT g.kind, g.tenant, g.name, g.version, g.body, $1, $4, $2, $3, g.body IS NULL FROM given g
ON CONFLICT (kind, tenant, name, version) DO UPDATE SET body = excluded.body, revision = excluded.revision, source = excluded.source,
	updated_at = excluded.updated_at, updated_by = excluded.updated_by, deleted = excluded.deleted`

// The history shows what is published as an object whose keys are sorted, like those of documents.
const writeArtifacts = `
WITH given AS (
	SELECT * FROM unnest($7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[])
		AS g (tenant, agent, uri, hash, inputs, compiled_at)
), change AS (
	SELECT g.tenant, g.agent, row_to_json(old) AS before, row_to_json(new) AS after
	FROM given g
		CROSS JOIN LATERAL (SELECT g.hash AS compiled_artifact_hash, g.uri AS compiled_artifact_uri, g.inputs) AS new
		LEFT JOIN LATERAL (
			SELECT a.hash AS compiled_artifact_hash, a.uri AS compiled_artifact_uri, a.inputs
			FROM catalog_artifacts a WHERE a.tenant = g.tenant AND a.agent = g.agent) AS old ON true
), history AS (
	INSERT INTO catalog_history (revision, kind, tenant, name, version, action, before, after, size, at, by, source, comment)
	SELECT $1, $6, c.tenant, c.agent, '', 'published', c.before, c.after,
		coalesce(octet_length(c.before::text), 0) + octet_length(c.after::text), $2, $3, $4, $5
	FROM change c
)
INSERT INTO catalog_artifacts (tenant, agent, uri, hash, inputs, compiled_at, revision)
SELECT g.tenant, g.agent, g.uri, g.hash, g.inputs, g.compiled_at, $1 FROM given g
ON CONFLICT (tenant, agent) DO UPDATE SET uri = excluded.uri, hash = excluded.hash, inputs = excluded.inputs,
	compiled_at = excluded.compiled_at, revision = excluded.revision`

const notifyCatalog = `
SELECT pg_notify('` + catalogChannel + `', $1)`

// CommitCatalog makes a change the next revision and returns that: all of it, with its history and the notification of those who
// listen, or nothing. Of what is put only key and body count; a body equal to the stored one is written like any other.
//
// [agent.CodeConflict] when c.At is not the newest revision. [agent.CodeNotFound] when a document to delete does not exist.
// [agent.CodeInvalid] when there is nothing to do, something is too large, or a key is given twice. After [agent.CodeUnavailable]
// and [agent.CodeCancelled] the change may have been made: then c.At is no longer the newest revision.
func (s *Store) CommitCatalog(ctx context.Context, c agent.CatalogCommit) (revision int64, err error) {
	const op = "commit catalog"
	if err := checkCommit(&c); err != nil {
		return 0, err
	}
	var (
		at      time.Time
		missing = -1 // index of a document to delete that is not there
	)
	err = transact(ctx, s.pool,
		func(b *pgx.Batch) {
			b.Queue(lockHead).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
			b.Queue(readClock).QueryRow(func(row pgx.Row) error { return row.Scan(&at) })
			if len(c.Delete) > 0 {
				k := deletedColumns(c.Delete)
				b.Queue(readMissing, k.kinds, k.tenants, k.names, k.versions).QueryRow(func(row pgx.Row) error {
					return optional(row.Scan(&missing))
				})
			}
		},
		func(b *pgx.Batch) error {
			switch {
			case revision != c.At:
				return agent.Errorf(agent.CodeConflict, op, "the catalog is at revision %d, the change was made for %d", revision, c.At)
			case missing >= 0:
				return agent.FieldErrorf(agent.CodeNotFound, fmt.Sprintf("delete[%d]", missing), "there is no %s", c.Delete[missing])
			}
			revision++
			queueCommit(b, &c, revision, at)
			return nil
		})
	if err != nil {
		return 0, mapError(op, err)
	}
	return revision, nil
}

func queueCommit(b *pgx.Batch, c *agent.CatalogCommit, revision int64, at time.Time) {
	b.Queue(advanceHead, revision)
	if len(c.Put)+len(c.Delete) > 0 {
		k := deletedColumns(c.Delete)
		bodies := make([][]byte, len(c.Delete), len(c.Delete)+len(c.Put))
		for i := range c.Put {
			k.add(c.Put[i].DocumentKey)
			bodies = append(bodies, c.Put[i].Body)
		}
		b.Queue(writeDocuments, revision, at, c.By, c.Source, c.Comment, k.kinds, k.tenants, k.names, k.versions, bodies)
	}
	if n := len(c.Publish); n > 0 {
		tenants, agents, uris, hashes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		inputs, compiled := make([]string, n), make([]time.Time, n)
		for i := range c.Publish {
			a := &c.Publish[i]
			tenants[i], agents[i], uris[i], hashes[i], inputs[i], compiled[i] = a.Tenant, a.Agent, a.URI, a.Hash, a.Inputs, a.CompiledAt
		}
		b.Queue(writeArtifacts, revision, at, c.By, c.Source, c.Comment, agent.KindAgent, tenants, agents, uris, hashes, inputs, compiled)
	}
	b.Queue(notifyCatalog, strconv.FormatInt(revision, 10))
}

// keyColumns are keys of documents, column by column.
type keyColumns struct {
	kinds, tenants, names, versions []string
}

func (c *keyColumns) add(k agent.DocumentKey) {
	c.kinds = append(c.kinds, string(k.Kind))
	c.tenants = append(c.tenants, k.Tenant)
	c.names = append(c.names, k.Name)
	c.versions = append(c.versions, k.Version)
}

func deletedColumns(keys []agent.DocumentKey) keyColumns {
	var c keyColumns
	for _, k := range keys {
		c.add(k)
	}
	return c
}
