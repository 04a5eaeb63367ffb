package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/pglisten"
)

// CatalogStore stores the documents of the catalog with their history, and the published plans of agents. One catalog has the documents of all
// tenants.
type CatalogStore struct{ *database }

const readHead = `
SELECT revision, oldest FROM catalog_head`

const documentColumns = `
SELECT kind, tenant, name, version, body, revision, source, updated_at, updated_by, deleted FROM catalog_documents`

const artifactColumns = `
SELECT tenant, agent, uri, hash, inputs, compiled_at, revision FROM catalog_artifacts`

// isNewer selects rows after a revision. PostgreSQL compares the head first and only once, and reads no rows if nothing has changed.
const isNewer = ` WHERE revision > $1 AND (SELECT revision FROM catalog_head) > $1`

const (
	byDocument = ` ORDER BY kind, tenant, name, version`
	byAgent    = ` ORDER BY tenant, agent`

	readDocuments      = documentColumns + ` WHERE NOT deleted` + byDocument
	readArtifacts      = artifactColumns + byAgent
	readDocumentsSince = documentColumns + isNewer + byDocument
	readArtifactsSince = artifactColumns + isNewer + byAgent
)

// LoadCatalog returns the whole catalog of one revision, without tombstones: documents in the order of their keys, and artifacts by tenant and
// agent.
func (s *CatalogStore) LoadCatalog(ctx context.Context) (agent.CatalogState, error) {
	return s.readCatalog(ctx, "load catalog", readDocuments, readArtifacts)
}

// CatalogSince returns the documents and artifacts that have changed since a revision, in the order of LoadCatalog. Deleted documents are
// tombstones without a body. The caller has to load everything if Oldest is after the revision, because changes are missing, or if Revision is
// before the revision, because the database was restored from a backup.
func (s *CatalogStore) CatalogSince(ctx context.Context, revision int64) (agent.CatalogState, error) {
	return s.readCatalog(ctx, "read catalog changes", readDocumentsSince, readArtifactsSince, revision)
}

// readCatalog reads the head, documents and artifacts of one revision.
func (s *CatalogStore) readCatalog(ctx context.Context, op, documents, artifacts string, args ...any) (agent.CatalogState, error) {
	var state agent.CatalogState
	err := s.snapshot(ctx, func(b *pgx.Batch) {
		b.Queue(readHead).QueryRow(scanInto(&state.Revision, &state.Oldest))
		queueRows(b, &state.Documents, pgx.RowToStructByName[agent.Document], documents, args...)
		queueRows(b, &state.Artifacts, pgx.RowToStructByName[agent.Artifact], artifacts, args...)
	})
	if err != nil {
		return agent.CatalogState{}, mapError(op, err)
	}
	return state, nil
}

const lockHead = `
SELECT revision FROM catalog_head FOR UPDATE`

// pruneTombstones also removes the published plans of the deleted agents.
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

// PruneCatalog removes the tombstones of documents that were deleted before a time, and returns their number. Readers of an earlier revision
// then have to load everything, which they see by CatalogState.Oldest. PruneCatalog does not change the history.
func (s *CatalogStore) PruneCatalog(ctx context.Context, before time.Time) (removed int, err error) {
	err = s.transact(ctx,
		func(b *pgx.Batch) { b.Queue(lockHead) }, // first, as commits do
		func(b *pgx.Batch) error {
			b.Queue(pruneTombstones, before, agent.KindAgent).QueryRow(scanInto(&removed))
			return nil
		})
	if err != nil {
		return 0, mapError("prune catalog", err)
	}
	return removed, nil
}

const historyColumns = `revision, kind, tenant, name, version, action, before, after, at, by, source, comment`

func readHistory() string {
	return boundedPage(historyColumns, `
		SELECT * FROM catalog_history
		WHERE ($1 = '' OR kind = $1) AND ($2 = '' OR tenant = $2) AND ($3 = '' OR name = $3)
			AND ($4::bigint = 0 OR (revision, kind, tenant, name, version, action) < ($4, $5, $6, $7, $8, $9))
		ORDER BY revision DESC, kind DESC, tenant DESC, name DESC, version DESC, action DESC LIMIT $10::integer + 1
	`, `revision DESC, kind DESC, tenant DESC, name DESC, version DESC, action DESC`, `size`, `$10`, `$11`)
}

// historyPlace is the place of an entry in the history.
type historyPlace struct {
	Revision int64  `json:"r"`
	Kind     string `json:"k,omitempty"`
	Tenant   string `json:"t,omitempty"`
	Name     string `json:"n,omitempty"`
	Version  string `json:"v,omitempty"`
	Action   string `json:"a,omitempty"`
}

func (p *historyPlace) isValid() bool {
	return p.Revision > 0 && checkNames(nameField{value: p.Kind}, nameField{value: p.Tenant}, nameField{value: p.Name}, nameField{value: p.Version},
		nameField{value: p.Action}) == nil
}

// CatalogHistory returns a page of the catalog's history, newest first and in descending order of keys within a revision. A page has at most
// q.Size entries (100 by default, 1,000 at most) and 8 MiB of documents, but at least one entry. Next is empty on the last page. An invalid
// token is [agent.CodeInvalid].
func (s *CatalogStore) CatalogHistory(ctx context.Context, q agent.HistoryQuery) (page agent.HistoryPage, err error) {
	if err := checkNames(
		nameField{"kind", string(q.Kind), false}, nameField{"tenant", q.Tenant, false}, nameField{"name", q.Name, false},
	); err != nil {
		return page, err
	}
	var after historyPlace
	if err := decodePageToken(q.Token, &after, (*historyPlace).isValid); err != nil {
		return page, err
	}
	page.Entries, page.Next, err = queryBoundedPage(ctx, s.pool, func(row pgx.CollectableRow) (e agent.AuditEntry, err error) {
		err = row.Scan(&e.Revision, &e.Kind, &e.Tenant, &e.Name, &e.Version, &e.Action, &e.Before, &e.After, &e.At, &e.By, &e.Source, &e.Comment)
		return e, err
	}, func(e *agent.AuditEntry) any {
		return historyPlace{Revision: e.Revision, Kind: string(e.Kind), Tenant: e.Tenant, Name: e.Name, Version: e.Version, Action: e.Action}
	}, readHistory(), string(q.Kind), q.Tenant, q.Name, after.Revision, after.Kind, after.Tenant, after.Name, after.Version, after.Action,
		pageSize(q.Size), maxPageBytes)
	return page, mapError("read catalog history", err)
}

const catalogChannel = "turnstone_catalog"

// ListenCatalog calls wake whenever the catalog may have changed: after a notification, after each connect, and when [Config.CatalogPoll] has
// passed without a call, even if there is no connection. Calls do not overlap; all notifications during one call result in one more call.
// ListenCatalog returns when ctx ends, after it has closed its connection.
func (s *CatalogStore) ListenCatalog(ctx context.Context, wake func()) {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal is pending
		}
	}
	l := pglisten.Listener{
		Pool: s.pool, Channels: []string{catalogChannel}, Logger: s.cfg.Logger,
		Begin: signal, Notify: func(*pgconn.Notification) { signal() },
	}
	var listening sync.WaitGroup
	listening.Go(func() { l.Run(ctx, nil) })
	defer listening.Wait()
	timer := time.NewTimer(withJitter(s.cfg.CatalogPoll))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		wake()
		timer.Reset(withJitter(s.cfg.CatalogPoll))
	}
}

// withJitter returns d ± 20 %, so that processes that have started at the same time do not poll at the same time.
func withJitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
