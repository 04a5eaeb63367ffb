package turnstone

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/gateway"
	probes "github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// health answers health checks with the readings of its probes (docs/start/health.md).
type health struct {
	service   *Service
	outcomes  *probes.Outcomes                                   // of the calls of models; nil in a gateway alone
	exporting func() (ok bool, detail string)                    // whether traces are delivered; nil: none are sent
	retention func(ctx context.Context) (probes.Schedule, error) // the schedule that removes old data; nil: there is none

	once    sync.Once
	board   *probes.Board
	openErr error
}

func (s *Service) newHealth() *health {
	h := &health{service: s, exporting: s.telemetry.traceStatus()}
	if s.cfg.Settings.Worker.Enabled {
		h.outcomes = s.outcomes
	}
	if s.hasSweeps() {
		h.retention = s.upkeep.retentionSchedule
	}
	return h
}

// check returns the current health. The first call makes the probes, because the service is open by then.
func (h *health) check(ctx context.Context) gateway.Health {
	h.once.Do(func() { h.openErr = h.open() })
	if h.openErr != nil {
		return gateway.Health{Dependencies: []gateway.Dependency{{Name: "health", State: gateway.HealthDown, Detail: h.openErr.Error()}}}
	}
	readings := h.board.Read(ctx)
	out := gateway.Health{OK: probes.Worst(readings) != probes.Down, Dependencies: make([]gateway.Dependency, len(readings))}
	if jobs := h.service.cfg.Settings.Jobs; jobs.RedisURL != "" {
		out.Workers = jobs.Concurrency
	}
	for i := range readings {
		r := &readings[i]
		out.Dependencies[i] = gateway.Dependency{
			Name: r.Name, OK: r.State == probes.OK, State: string(r.State), Detail: r.Detail, Hint: r.Hint, Since: r.Since, Took: r.Took,
		}
	}
	return out
}

func (h *health) open() error {
	s := h.service
	set := s.cfg.Settings
	db := newDatabaseProbes(s.pool)
	cluster := &probes.Cluster{
		Client: s.temporal, Namespace: s.namespace, TaskQueue: set.Temporal.TaskQueue, Attributes: s.watch.KnowsAll,
	}
	all := []probes.Probe{db.Probe(), db.ClockProbe(), cluster.Probe(), cluster.WorkerProbe()}
	switch log := s.log.(type) {
	case interface{ Listening() bool }:
		all = append(all, probes.EventLogProbe(log.Listening))
	default:
		if set.Events.Log == app.LogMemory {
			all = append(all, probes.EventLogProbe(nil))
		}
	}
	bucket := set.Storage.BlobURL.Reveal()
	all = append(all, probes.BlobProbe(probes.OpenBucket(bucket)))
	if u, err := url.Parse(bucket); err == nil && u.Scheme == "file" {
		all = append(all, probes.DiskProbe(u.Path))
	}
	if set.Jobs.RedisURL != "" {
		jobs, err := probes.RedisProbe(set.Jobs.RedisURL.Reveal(), set.Jobs.Queue)
		if err != nil {
			return err
		}
		all = append(all, jobs)
	}
	all = append(all, newDocumentProbes(s.parts.Registry, db).Probe())
	if h.outcomes != nil {
		all = append(all, h.outcomes.Probe(modelsWithoutSecret(s.parts.Registry, s.parts.Models)))
	}
	if h.exporting != nil {
		all = append(all, probes.TelemetryProbe(h.exporting))
	}
	if h.retention != nil {
		all = append(all, probes.RetentionProbe(h.retention))
	}
	if files := serverCertificates(set); len(files) > 0 {
		all = append(all, probes.CertificateProbe(files))
	}
	redactor, err := app.Redactor(set.Log.PII, app.Secrets(set, s.cfg.Env)...)
	if err != nil {
		return err
	}
	h.board = probes.New(probes.Config{Probes: all, Logger: s.logger.Named("health"), Redact: redactor.Text})
	return nil
}

// watchedModels records whether the calls of models succeed.
type watchedModels struct {
	turns.Models
	outcomes *probes.Outcomes
}

func (w watchedModels) Model(ctx context.Context, m agent.PlanModel) (agent.Model, error) {
	found, err := w.Models.Model(ctx, m)
	if err != nil {
		w.outcomes.Note(m.Profile, err)
		return nil, err
	}
	return w.outcomes.Watch(m.Profile, found), nil
}

func newDatabaseProbes(pool *pgxpool.Pool) *probes.Database {
	return &probes.Database{
		Schema: postgres.SchemaVersion(),
		Row:    func(ctx context.Context, sql string, dest ...any) error { return pool.QueryRow(ctx, sql).Scan(dest...) },
		Try:    func(ctx context.Context, statements ...string) error { return tryStatements(ctx, pool, statements) },
		Pool: func() (used, limit int) {
			stat := pool.Stat()
			return int(stat.AcquiredConns()), int(stat.MaxConns())
		},
	}
}

// tryStatements runs statements in one transaction, and rolls it back.
func tryStatements(ctx context.Context, pool *pgxpool.Pool, statements []string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // if the rollback fails, pgx closes the connection
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func newDocumentProbes(r *catalog.Registry, db *probes.Database) *probes.Documents {
	return &probes.Documents{
		Status: r.Status,
		Head: func(ctx context.Context) (head int64, err error) {
			return head, db.Row(ctx, `SELECT revision FROM catalog_head`, &head)
		},
		Agents: func(ctx context.Context) ([]agent.AgentInfo, error) {
			page, err := r.ListAgents(ctx, agent.AgentQuery{})
			return page.Agents, err
		},
	}
}

// modelUsers is the part of the catalog that names the models in use.
type modelUsers interface {
	ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error)
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
	Collection(ctx context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error)
}

// modelsWithoutSecret returns a function that lists the models that cannot be called because their secret is missing: models of the default
// tenant's agents, and embedding models of knowledge collections. It sends nothing to a provider.
func modelsWithoutSecret(r modelUsers, models *llm.Models) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		faults := modelFaults{seen: map[string]bool{}}
		page, err := r.ListAgents(ctx, agent.AgentQuery{})
		if err != nil {
			return nil, err
		}
		for i := range page.Agents {
			plan, _, err := r.Resolve(ctx, agent.DefaultTenant, page.Agents[i].Name)
			if err != nil {
				continue // the catalog's probe reports it
			}
			for j := range plan.Models {
				m := &plan.Models[j]
				faults.check(m.Profile, func() error { _, err := models.Model(ctx, *m); return err })
			}
		}
		collections, err := r.Documents(ctx, agent.DocumentQuery{Kind: agent.KindKnowledge})
		if err != nil {
			return nil, err
		}
		for i := range collections.Documents {
			key := &collections.Documents[i].DocumentKey
			faults.check(key.String(), func() error { return checkEmbedder(ctx, r, models, key) })
		}
		return faults.texts, nil
	}
}

// modelFaults collects what is wrong with models, each name once.
type modelFaults struct {
	seen  map[string]bool
	texts []string
}

func (f *modelFaults) check(name string, open func() error) {
	if f.seen[name] {
		return
	}
	f.seen[name] = true
	if err := open(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		f.texts = append(f.texts, name+": "+err.Error())
	}
}

// checkEmbedder returns an error if the embedding model of a collection cannot be called, nil if it can or if the collection has none.
func checkEmbedder(ctx context.Context, r modelUsers, models *llm.Models, collection *agent.DocumentKey) error {
	_, model, err := r.Collection(ctx, collection.Tenant, collection.Name)
	if err != nil || model == nil {
		return nil //nolint:nilerr // the catalog's probe reports it
	}
	if _, err = models.Embedder(ctx, *model); err != nil {
		return fmt.Errorf("is searched by words alone, because its embedding model %s cannot be called: %w", model.Profile, err)
	}
	return nil
}

// serverCertificates returns the files of the servers' certificates and keys, by setting.
func serverCertificates(set *Settings) map[string][2]string {
	files := map[string][2]string{}
	if set.HTTP.TLSCert != "" {
		files["http.tls_cert"] = [2]string{set.HTTP.TLSCert, set.HTTP.TLSKey}
	}
	if set.GRPC.TLSCert != "" {
		files["grpc.tls_cert"] = [2]string{set.GRPC.TLSCert, set.GRPC.TLSKey}
	}
	return files
}
