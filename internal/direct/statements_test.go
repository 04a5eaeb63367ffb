package direct_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

// TestStatementsOfATurn bounds what a turn with one tool call asks of the database, so that nobody adds a statement unseen. The database is new and
// not analyzed: statements that read all of a tenant's turns look at three times as many blocks.
func TestStatementsOfATurn(t *testing.T) {
	const turns = 200
	counted := postgrestest.Count(t)
	w := newWorldOn(t, 2, counted.DSN)
	run := func(n int) {
		w.mu.Lock()
		w.asked, w.play = 0, toolsThenWords("look")
		w.mu.Unlock()
		id := agent.TurnID(fmt.Sprintf("t%d", n))
		w.submit(id, agent.SessionID(fmt.Sprintf("s%d", n%20)))
		w.follow(id)
	}
	for n := range 4 {
		run(-n - 1)
	}
	counted.Take()
	for n := range turns {
		run(n)
	}
	cost := counted.Take()
	t.Log(cost.Table(turns))
	require.LessOrEqual(t, cost.Total(), 12*turns)
	require.LessOrEqual(t, cost.WAL, int64(turns*14<<10))
	require.LessOrEqual(t, cost.Blocks(), int64(turns*330))
}
