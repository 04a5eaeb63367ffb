package postgres

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Datasets returns the newest datasets of a session's earlier turns.
func (s *Store) Datasets(context.Context, string, agent.SessionID, agent.TurnID, int) ([]agent.SessionDataset, error) {
	return nil, nil
}
