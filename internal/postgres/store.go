package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
)

// Config configures [Open] and [NewStore]. A zero value means the default of its field.
type Config struct {
	URL            string        // DSN or URL of the database; only for Open
	MaxConns       int32         // of the pool; default 10
	ConnectTimeout time.Duration // how long Open waits for the server; default 30 s
	Logger         *zap.Logger   // default: no logs

	QueueLimit     int  // how many turns may wait in one session, if their records set no limit; default 256
	PromptMessages int  // maximum number of messages in a prompt; default 2,000
	PromptBytes    int  // maximum size of a prompt's blocks as JSON; default 8 MiB
	SeparateLog    bool // whether the event log is in another database, so that Finish does not write the events

	// BlobGrace is how long unreferenced content stays after it was stored, or after the cache released it; default 1 h. It must be longer than
	// a tool takes from storing content to returning a reference to it.
	BlobGrace time.Duration

	CatalogPoll time.Duration // how often, ± 20 %, to check for missed notifications of the catalog; default 5 s
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

func setDefault[T int | int32 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Store holds the stores of all features. They share one connection pool. Every write is atomic, and writes of turns are idempotent on their
// keys. Errors have an [agent.Code], [agent.CodeUnavailable] if a retry may help. A tenant cannot see the data of another tenant. A Store is
// safe for concurrent use.
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
