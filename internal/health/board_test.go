package health_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func board(t *testing.T, probes ...health.Probe) *health.Board {
	t.Helper()
	return health.New(health.Config{Probes: probes})
}

// ask reads one probe through a board of its own, as everybody does.
func ask(t *testing.T, p health.Probe) health.Reading {
	t.Helper()
	return board(t, p).Read(t.Context())[0]
}

func says(f health.Finding) func(context.Context) (health.Finding, error) {
	return func(context.Context) (health.Finding, error) { return f, nil }
}

func TestWorst(t *testing.T) {
	b := board(t,
		health.Probe{Name: "a", Ask: says(health.Finding{State: health.OK, Detail: "fine", Hint: "not shown"})},
		health.Probe{Name: "b", Ask: says(health.Finding{State: health.Degraded, Hint: "mend it"})},
	)
	all := b.Read(t.Context())
	require.Equal(t, health.Degraded, health.Worst(all))
	require.Equal(t, "a", all[0].Name)
	require.Empty(t, all[0].Hint, "what is well needs none")
	require.Equal(t, "mend it", all[1].Hint)
	require.Equal(t, health.Down, health.Worst(append(all, health.Reading{Finding: health.Finding{State: health.Down}})))
	require.Equal(t, health.OK, health.Worst(nil))
}

// A thousand readers at once cost a dependency one question for each second that they take.
func TestReadersShareOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		b := board(t, health.Probe{Name: "slow", Ask: func(context.Context) (health.Finding, error) {
			asked.Add(1)
			time.Sleep(200 * time.Millisecond)
			return health.Finding{State: health.OK}, nil
		}})
		var readers sync.WaitGroup
		for i := range 1000 {
			readers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // within a second
				require.Equal(t, health.OK, b.Read(t.Context())[0].State)
			})
		}
		readers.Wait()
		require.EqualValues(t, 1, asked.Load())
		time.Sleep(1200 * time.Millisecond)
		b.Read(t.Context())
		require.EqualValues(t, 2, asked.Load(), "an answer does not hold for ever")
	})
}

// What hangs costs a reader no more than the bound, is asked by one goroutine however often it is read, and is well again by itself.
func TestHangingProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		hang := make(chan struct{})
		b := board(t,
			health.Probe{Name: "hangs", Timeout: time.Second, Ask: func(context.Context) (health.Finding, error) {
				asked.Add(1)
				<-hang // it does not look at its context
				return health.Finding{State: health.OK}, nil
			}},
			health.Probe{Name: "well", Ask: says(health.Finding{State: health.OK})},
		)
		began := time.Now()
		all := b.Read(t.Context())
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, health.Down, all[0].State)
		require.Equal(t, "no answer within 1s", all[0].Detail)
		require.NotEmpty(t, all[0].Hint)
		require.Equal(t, health.OK, all[1].State)
		since := all[0].Since
		for range 5 {
			time.Sleep(2 * time.Second)
			began = time.Now()
			all = b.Read(t.Context())
			require.Zero(t, time.Since(began), "nobody waits a second time for the same question")
			require.Equal(t, since, all[0].Since)
		}
		require.EqualValues(t, 1, asked.Load())
		close(hang)
		synctest.Wait()
		all = b.Read(t.Context())
		require.Equal(t, health.OK, all[0].State)
		require.True(t, all[0].Since.After(since))
	})
}

// A reader who leaves neither waits nor breaks off what others wait for.
func TestImpatientReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board(t, health.Probe{Name: "slow", Ask: func(ctx context.Context) (health.Finding, error) {
			select {
			case <-time.After(500 * time.Millisecond):
				return health.Finding{State: health.OK}, nil
			case <-ctx.Done():
				return health.Finding{}, ctx.Err()
			}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		r := b.Read(ctx)[0]
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Equal(t, health.Down, r.State)
		require.Equal(t, "slow", r.Name)
		require.Equal(t, health.OK, b.Read(t.Context())[0].State)
		time.Sleep(2 * time.Second)
		canceled, stop := context.WithCancel(t.Context())
		stop()
		require.Equal(t, health.OK, b.Read(canceled)[0].State, "the last answer rather than none")
		time.Sleep(time.Second)
	})
}

func TestChangesAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	synctest.Test(t, func(t *testing.T) {
		state := health.OK
		b := health.New(health.Config{Logger: zap.New(core), Probes: []health.Probe{{
			Name: "a", Ask: func(context.Context) (health.Finding, error) {
				return health.Finding{State: state, Hint: "mend it"}, nil
			},
		}}})
		for _, state = range []health.State{health.OK, health.Down, health.Down, health.Degraded, health.OK, health.OK} {
			b.Read(t.Context())
			time.Sleep(2 * time.Second)
		}
	})
	var lines []string
	for _, l := range logs.All() {
		lines = append(lines, fmt.Sprintf("%s %v>%v", l.Level, l.ContextMap()["before"], l.ContextMap()["state"]))
	}
	require.Equal(t, []string{"warn ok>down", "warn down>degraded", "info degraded>ok"}, lines)
}

func TestPanickingProbe(t *testing.T) {
	r := ask(t, health.Probe{Name: "a", Ask: func(context.Context) (health.Finding, error) { panic("a secret") }})
	require.Equal(t, health.Down, r.State)
	require.NotContains(t, r.Detail, "secret")
}

// Whatever an error says, no secret of it is told.
func TestDetailsHoldNoSecrets(t *testing.T) {
	word := "hunter" + "2-long"
	for _, text := range []string{
		"connect to postgres://app:" + word + "@db.example.com:5432/app?sslmode=require: refused",
		"cannot parse `host=db password=" + word + " user=app`",
		"parse postgres://app:" + word + "@db: x",
		`redis://:` + word + `@redis:6379/0: i/o timeout`,
		"dsn: password = '" + word + "'",
		"api_key: " + word,
		"known by its value: <" + word + ">",
	} {
		b := health.New(health.Config{
			Redact: func(text string) string { return strings.ReplaceAll(text, "<"+word+">", "[redacted]") },
			Probes: []health.Probe{{Name: "a", Ask: func(context.Context) (health.Finding, error) { return health.Finding{}, errors.New(text) }}},
		})
		r := b.Read(t.Context())[0]
		require.NotContains(t, r.Detail, word, text)
		require.NotContains(t, r.Hint, word, text)
		require.Contains(t, strings.ToLower(r.Detail), "[redacted]")
	}
	r := ask(t, health.Probe{Name: "a", Ask: func(context.Context) (health.Finding, error) {
		return health.Finding{}, errors.New(strings.Repeat("ä\n", 5000))
	}})
	require.LessOrEqual(t, len(r.Detail), 1003)
	require.NotContains(t, r.Detail, "\n")
}
