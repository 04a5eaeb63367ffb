package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const readHead = `
SELECT revision, oldest FROM catalog_head`

const documentColumns = `
SELECT kind, tenant, name, version, body, revision, source, updated_at, updated_by, deleted FROM catalog_documents`

const artifactColumns = `
SELECT tenant, agent, uri, hash, inputs, compiled_at, revision FROM catalog_artifacts`

// When nothing changed the comparison with the head, which is made once and first, spares the rest, whatever the planner thinks.
const behind = ` WHERE revision > $1 AND (SELECT revision FROM catalog_head) > $1`

const (
	byDocument = ` ORDER BY kind, tenant, name, version`
	byAgent    = ` ORDER BY tenant, agent`

	readDocuments      = documentColumns + ` WHERE NOT deleted` + byDocument
	readArtifacts      = artifactColumns + byAgent
	readDocumentsSince = documentColumns + behind + byDocument
	readArtifactsSince = artifactColumns + behind + byAgent
)

// LoadCatalog returns the whole catalog without tombstones as of one revision: documents in the order of their keys, artifacts by
// tenant and agent. One round trip.
func (s *Store) LoadCatalog(ctx context.Context) (agent.CatalogState, error) {
	return s.readCatalog(ctx, "load catalog", readDocuments, readArtifacts)
}

// CatalogSince returns what changed behind a revision, in the order of LoadCatalog: each document once and as it is now, deleted
// ones as tombstones without a body, and each artifact published since. It knows of every change when the answer's Oldest is not
// behind the revision; else the caller has to load everything. So it has when the answer's Revision is before the one it asked with:
// the database was restored from a backup. One round trip.
func (s *Store) CatalogSince(ctx context.Context, revision int64) (agent.CatalogState, error) {
	return s.readCatalog(ctx, "read catalog changes", readDocumentsSince, readArtifactsSince, revision)
}

// readCatalog reads head, documents and artifacts from one snapshot.
func (s *Store) readCatalog(ctx context.Context, op, documents, artifacts string, args ...any) (agent.CatalogState, error) {
	var state agent.CatalogState
	err := snapshot(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(readHead).QueryRow(func(row pgx.Row) error { return row.Scan(&state.Revision, &state.Oldest) })
		b.Queue(documents, args...).Query(func(rows pgx.Rows) (err error) {
			state.Documents, err = pgx.CollectRows(rows, scanDocument)
			return err
		})
		b.Queue(artifacts, args...).Query(func(rows pgx.Rows) (err error) {
			state.Artifacts, err = pgx.CollectRows(rows, scanArtifact)
			return err
		})
	})
	if err != nil {
		return agent.CatalogState{}, mapError(op, err)
	}
	return state, nil
}

func scanDocument(row pgx.CollectableRow) (d agent.Document, err error) {
	err = row.Scan((*string)(&d.Kind), &d.Tenant, &d.Name, &d.Version, (*[]byte)(&d.Body), &d.Revision, &d.Source, &d.UpdatedAt,
		&d.UpdatedBy, &d.Deleted)
	d.UpdatedAt = d.UpdatedAt.UTC()
	return d, err
}

func scanArtifact(row pgx.CollectableRow) (a agent.Artifact, err error) {
	err = row.Scan(&a.Tenant, &a.Agent, &a.URI, &a.Hash, &a.Inputs, &a.CompiledAt, &a.Revision)
	a.CompiledAt = a.CompiledAt.UTC()
	return a, err
}

const lockHead = `
SELECT revision FROM catalog_head FOR UPDATE`

// With an agent goes the plan that was published of it before.
const pruneTombstones = `
WITH gone AS (
	DELETE FROM catalog_documents WHERE deleted AND updated_at < $1 RETURNING kind, tenant, name, revision
), unpublished AS (
	DELETE FROM catalog_artifacts a USING gone g
	WHERE g.kind = $2 AND a.tenant = g.tenant AND a.agent = g.name AND a.revision < g.revision
), raised AS (
	UPDATE catalog_head SET oldest = greatest(oldest, (SELECT max(revision) FROM gone))
)
SELECT count(*) FROM gone`

// PruneCatalog removes the tombstones of documents deleted before a time and says how many those were. Who resumes from a revision
// before the newest of them has to load everything: CatalogState.Oldest says so. The history stays.
func (s *Store) PruneCatalog(ctx context.Context, before time.Time) (removed int, err error) {
	err = transact(ctx, s.pool,
		func(b *pgx.Batch) { b.Queue(lockHead) }, // first, as commits do
		func(b *pgx.Batch) error {
			b.Queue(pruneTombstones, before, agent.KindAgent).QueryRow(func(row pgx.Row) error { return row.Scan(&removed) })
			return nil
		})
	if err != nil {
		return 0, mapError("prune catalog", err)
	}
	return removed, nil
}
