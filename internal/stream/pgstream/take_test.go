package pgstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// Whatever becomes of the transaction that takes a stream's events, each is stored once, or its producer is fenced.
func TestTakenEvents(t *testing.T) {
	const fails = `SELECT 1 / 0`
	for _, c := range []struct {
		name      string
		extra     string // a statement of the same transaction
		committed bool   // what Done is told
		takenOver bool   // by another process, before the transaction
		want      error  // of Sync
	}{
		{name: "committed", extra: `SELECT 1`, committed: true},
		{name: "rolled back", extra: fails},
		{name: "committed, and nobody knows", extra: `SELECT 1`},
		{name: "taken over", extra: `SELECT 1`, committed: true, takenOver: true, want: agent.ErrFenced},
		{name: "taken over and rolled back", extra: fails, takenOver: true, want: agent.ErrFenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			log, other := open(t, pool, pgstream.Config{}), open(t, pool, pgstream.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			f := begin(t, log, "s", "p")
			appendText(t, log, f, 1, "a")
			events := log.Take(f)
			require.NotNil(t, events)
			require.Nil(t, log.Take(f), "somebody has them")
			appendText(t, log, f, 2, "b") // goes on meanwhile
			if c.takenOver {
				exec(t, pool, `SELECT turnstone_take('s')`)
			}
			bounded, stop := context.WithTimeout(ctx, 50*time.Millisecond)
			defer stop()
			require.Error(t, log.Sync(bounded, f), "nothing is stored behind the back of whoever has the events")

			var b pgx.Batch
			events.(interface{ Queue(b *pgx.Batch) }).Queue(&b)
			b.Queue(c.extra).Query(func(rows pgx.Rows) error { rows.Close(); return rows.Err() })
			_ = pool.SendBatch(ctx, &b).Close()
			events.Done(c.committed)
			events.Done(!c.committed) // says nothing new
			require.ErrorIs(t, log.Sync(ctx, f), c.want)
			if c.want != nil {
				return
			}
			require.NoError(t, log.Close(ctx, "s", completed))
			got, err := readShown(ctx, other, "s", 0)
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b", "COMPLETED"}, got)
			require.Nil(t, log.Take(f), "the stream has ended")
		})
	}
}
