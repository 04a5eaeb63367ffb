package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
)

// Config configures [Open] and [NewStore]. The default of a zero value stands at its field.
type Config struct {
	URL            string        // DSN or URL of the database; only for Open
	MaxConns       int32         // of the pool; default 10
	ConnectTimeout time.Duration // how long Open waits for the server; default 30 s
	Logger         *zap.Logger   // default: no logs

	QueueLimit     int  // turns that wait in one session, for records without a limit; default 256
	PromptMessages int  // maximum of a prompt; default 2,000
	PromptBytes    int  // maximum of a prompt's blocks as JSON; default 8 MiB
	SeparateLog    bool // the event log is not in this database: Finish leaves its events to the caller

	// BlobGrace is how long unreferenced content stays after somebody stored it, or after the cache released it; default 1 h. It must be
	// longer than a tool needs from storing content to answering with its reference.
	BlobGrace time.Duration

	CatalogPoll time.Duration // when a missed notification of the catalog is noticed, ± 20 %; default 5 s
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxConns, 10)
	setDefault(&c.ConnectTimeout, 30*time.Second)
	setDefault(&c.QueueLimit, 256)
	setDefault(&c.PromptMessages, 2000)
	setDefault(&c.PromptBytes, 8<<20)
	setDefault(&c.BlobGrace, time.Hour)
	setDefault(&c.CatalogPoll, 5*time.Second)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func setDefault[T int | int32 | time.Duration](value *T, to T) {
	if *value <= 0 {
		*value = to
	}
}

// Store holds the stores of all features. They share one connection pool. Every write is atomic; writes of turns are idempotent on their
// keys. Errors carry an [agent.Code], [agent.CodeUnavailable] if a retry may help. A tenant cannot see what belongs to another tenant. Safe
// for concurrent use.
type Store struct {
	*TurnStore
	*StepStore
	*SessionStore
	*FindStore
	*ApprovalStore
	*AdmissionStore
	*ResultStore
	*ContentStore
	*CatalogStore
	*CompositeStore
	*WorkflowStore
	*RunStore
	*ScheduleStore
	*LinkStore
	*ChatStore
	*KeyStore
	*AuditStore
	*KnowledgeStore
	*UsageStore
	*MetricStore
	*RetentionStore
	*ErasureStore
}

// database is the connection pool and the configuration that all stores share.
type database struct {
	pool *pgxpool.Pool
	cfg  Config
}

// NewStore returns a store on a pool whose schema is up to date ([Migrate]). The caller closes the pool.
func NewStore(pool *pgxpool.Pool, c Config) *Store {
	db := &database{pool: pool, cfg: c.withDefaults()}
	cache, later := newTurnCache(), &laterSteps{}
	return &Store{
		TurnStore:      &TurnStore{db, cache, later},
		StepStore:      &StepStore{db, cache, later},
		SessionStore:   &SessionStore{db},
		FindStore:      &FindStore{db},
		ApprovalStore:  &ApprovalStore{db},
		AdmissionStore: &AdmissionStore{database: db},
		ResultStore:    &ResultStore{db},
		ContentStore:   &ContentStore{db},
		CatalogStore:   &CatalogStore{db},
		CompositeStore: &CompositeStore{db},
		WorkflowStore:  &WorkflowStore{db},
		RunStore:       &RunStore{db},
		ScheduleStore:  &ScheduleStore{db},
		LinkStore:      &LinkStore{db},
		ChatStore:      &ChatStore{db},
		KeyStore:       &KeyStore{db},
		AuditStore:     &AuditStore{db},
		KnowledgeStore: &KnowledgeStore{database: db},
		UsageStore:     &UsageStore{db},
		MetricStore:    &MetricStore{db},
		RetentionStore: &RetentionStore{db},
		ErasureStore:   &ErasureStore{db},
	}
}
