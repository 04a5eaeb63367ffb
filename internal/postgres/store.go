package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps sessions, turns, steps, transcripts, results, approvals and plans. It satisfies activities.TurnStore. Every write is
// atomic and idempotent on its key; errors carry an [agent.Code], [agent.CodeUnavailable] for what is worth trying again. What
// belongs to one tenant is unknown to every other. Safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	cfg  Config
}

// NewStore returns a store on a pool whose schema is up to date ([Migrate]). Closing the pool is the caller's.
func NewStore(pool *pgxpool.Pool, c Config) *Store {
	return &Store{pool: pool, cfg: c.withDefaults()}
}

func unknownTurn(op string, id agent.TurnID) error {
	return agent.Errorf(agent.CodeNotFound, op, "turn %q is not known", id)
}
