package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a commit.
const (
	maxCommitDocuments = 20_000   // of documents to put or delete, and of artifacts
	maxCommitBytes     = 64 << 20 // of all bodies
	maxDocumentBytes   = 1 << 20
)

// readClock reads the time of a commit while the head is locked, so that a later revision has a later time.
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

// writeDocuments deletes documents without a body and puts the others. The history reads the documents from before the statement.
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

// writeArtifacts writes artifacts into the history as objects with sorted keys, like documents.
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

// CommitCatalog stores a change as the next revision, with its history and a notification, and returns that revision. It uses only the key and
// the body of each document to put, and also writes a body that has not changed.
//
// The error is [agent.CodeConflict] if c.At is not the newest revision, [agent.CodeNotFound] if a document to delete does not exist, and
// [agent.CodeInvalid] if the change is empty or too large, or has a key twice. After [agent.CodeUnavailable] or [agent.CodeCancelled] the
// change may have been made; then c.At is no longer the newest revision. Any other error means that nothing has changed.
func (s *CatalogStore) CommitCatalog(ctx context.Context, c agent.CatalogCommit) (revision int64, err error) {
	const op = "commit catalog"
	if err := checkCommit(&c); err != nil {
		return 0, err
	}
	var (
		at      time.Time
		missing = -1 // the index of a document to delete that does not exist
	)
	err = s.transact(ctx,
		func(b *pgx.Batch) {
			b.Queue(lockHead).QueryRow(scanInto(&revision))
			b.Queue(readClock).QueryRow(scanInto(&at))
			if len(c.Delete) > 0 {
				b.Queue(readMissing, keyColumnsOf(c.Delete)...).QueryRow(scanOptional(&missing))
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
		keys := slices.Clone(c.Delete)
		bodies := make([][]byte, len(c.Delete), len(c.Delete)+len(c.Put))
		for i := range c.Put {
			keys = append(keys, c.Put[i].DocumentKey)
			bodies = append(bodies, c.Put[i].Body)
		}
		args := append([]any{revision, at, c.By, c.Source, c.Comment}, keyColumnsOf(keys)...)
		b.Queue(writeDocuments, append(args, bodies)...)
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

// keyColumnsOf returns the kinds, tenants, names and versions of keys, each as an array.
func keyColumnsOf(keys []agent.DocumentKey) []any {
	n := len(keys)
	kinds, tenants, names, versions := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, k := range keys {
		kinds[i], tenants[i], names[i], versions[i] = string(k.Kind), k.Tenant, k.Name, k.Version
	}
	return []any{kinds, tenants, names, versions}
}

// checkCommit returns an error if a commit cannot be stored.
func checkCommit(c *agent.CatalogCommit) error {
	switch documents := len(c.Put) + len(c.Delete); {
	case documents+len(c.Publish) == 0:
		return agent.Errorf(agent.CodeInvalid, "", "there is nothing to commit")
	case documents > maxCommitDocuments:
		return agent.Invalid("put", "%d documents are put or deleted at once; the most are %d", documents, maxCommitDocuments)
	case len(c.Publish) > maxCommitDocuments:
		return agent.Invalid("publish", "%d artifacts are published at once; the most are %d", len(c.Publish), maxCommitDocuments)
	}
	for _, text := range []struct{ field, value string }{{"by", c.By}, {"source", c.Source}, {"comment", c.Comment}} {
		if err := checkText(text.field, text.value, maxTextBytes); err != nil {
			return err
		}
	}
	if err := checkDocuments(c); err != nil {
		return err
	}
	return checkArtifacts(c.Publish)
}

func checkDocuments(c *agent.CatalogCommit) error {
	total := 0
	for i := range c.Put {
		if total += len(c.Put[i].Body); total > maxCommitBytes {
			return agent.Invalid("put", "more than %d bytes of documents at once", maxCommitBytes)
		}
	}
	seen := make(map[agent.DocumentKey]struct{}, len(c.Put)+len(c.Delete))
	for i := range c.Put {
		d := &c.Put[i]
		if err := checkOnce(seen, d.DocumentKey); err != nil {
			return inElement("put", i, err)
		}
		switch {
		case len(d.Body) > maxDocumentBytes:
			return inElement("put", i, agent.Invalid("body", "is longer than %d bytes", maxDocumentBytes))
		case !isJSON(d.Body):
			return inElement("put", i, agent.Invalid("body", "is not JSON"))
		}
	}
	for i := range c.Delete {
		if err := checkOnce(seen, c.Delete[i]); err != nil {
			return inElement("delete", i, err)
		}
	}
	return nil
}

func checkOnce(seen map[agent.DocumentKey]struct{}, k agent.DocumentKey) *agent.Error {
	if err := checkNames(nameField{"kind", string(k.Kind), true}, nameField{"tenant", k.Tenant, false}, nameField{"name", k.Name, true},
		nameField{"version", k.Version, false}); err != nil {
		return err
	}
	if _, twice := seen[k]; twice {
		return agent.Invalid("name", "%s is given twice", k)
	}
	seen[k] = struct{}{}
	return nil
}

func checkArtifacts(publish []agent.Artifact) error {
	type owner struct{ tenant, agent string }
	seen := make(map[owner]struct{}, len(publish))
	for i := range publish {
		a := &publish[i]
		if err := checkNames(nameField{"tenant", a.Tenant, true}, nameField{"agent", a.Agent, true},
			nameField{"compiled_artifact_uri", a.URI, true}, nameField{"compiled_artifact_hash", a.Hash, true},
			nameField{"inputs", a.Inputs, true}); err != nil {
			return inElement("publish", i, err)
		}
		if _, twice := seen[owner{a.Tenant, a.Agent}]; twice {
			return inElement("publish", i, agent.Invalid("agent", "%s/%s is given twice", a.Tenant, a.Agent))
		}
		seen[owner{a.Tenant, a.Agent}] = struct{}{}
	}
	return nil
}
