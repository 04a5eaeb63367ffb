package postgres

import (
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps sessions, turns, steps, transcripts, results and approvals, the catalog, and knowledge collections. It satisfies
// turns.TurnStore, catalog.Store and retrieval.Store. Every write is atomic; those of turns are idempotent on their keys. Errors carry an [agent.Code],
// [agent.CodeUnavailable] for what is worth trying again. A turn of one tenant is unknown to every other; the catalog knows no
// such walls. Safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	cfg  Config

	vectors    atomic.Bool // the database keeps them, as far as known
	turnstiles turnstiles

	kept keptTurns
}

// NewStore returns a store on a pool whose schema is up to date ([Migrate]). Closing the pool is the caller's.
func NewStore(pool *pgxpool.Pool, c Config) *Store {
	return &Store{pool: pool, cfg: c.withDefaults()}
}

func unknownTurn(op string, id agent.TurnID) error {
	return agent.Errorf(agent.CodeNotFound, op, "there is no record of turn %q: it was deleted, or the database was restored from an older backup", id)
}
