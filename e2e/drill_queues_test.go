//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// drillQueue has all messages of one session queued behind a turn that waits for a person, and then lets them run: in their order, and the last ones as fast as the
// first ones.
func drillQueue(t *testing.T, binary string, load int) {
	s := newSite(t, binary, 2, func(c *siteConfig) { c.env = []string{fmt.Sprint("TURNSTONE_TURN_QUEUE_LENGTH=", load)} })
	e := &errands{site: s, sessions: make([][]*errand, 1)}
	holder := &errand{name: "holder", tools: []string{"pay"}, session: "queue"}
	e.sessions[0] = append(e.sessions[0], holder)
	for i := range load {
		e.sessions[0] = append(e.sessions[0], &errand{name: fmt.Sprintf("q%05d", i), session: "queue"})
	}
	began := time.Now()
	for next := range e.all() {
		require.NoError(t, e.accept(t.Context(), next), next.name)
	}
	accepted := time.Since(began)
	require.NoError(t, e.view(t.Context(), holder), "approved")

	s.awaitResults(load + 1)
	e.verifyStored()
	e.verifyOrder()
	first, last := s.perTurn("queue", 1, load/5), s.perTurn("queue", load-load/5, load)
	t.Logf("%d messages accepted in %s (%s each); of the first fifth a turn took %s, of the last %s", load, accepted.Round(time.Second),
		(accepted / time.Duration(load)).Round(time.Millisecond), first, last)
	require.Less(t, last, 2*first+50*time.Millisecond, "a turn takes as long at the end of the queue as at its beginning")
}

// perTurn is the median time from the end of one turn of a session to the end of the next.
func (s *site) perTurn(session agent.SessionID, from, to int) time.Duration {
	s.t.Helper()
	var seconds float64
	require.NoError(s.t, s.connect().QueryRow(s.t.Context(), `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY took) FROM (
		SELECT seq, extract(epoch FROM finished_at - lag(finished_at) OVER (ORDER BY seq))::float8 AS took FROM turns WHERE session_id = $1
	) t WHERE seq BETWEEN $2 AND $3`, string(session), from+1, to+1).Scan(&seconds))
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// drillJobs pushes all jobs at once while the three workers that bridge them are killed, once for every 20 jobs up to 50 times, and Redis once. Each job has
// one result.
func drillJobs(t *testing.T, binary string, load int) {
	server := startRedis(t)
	s := newSite(t, binary, 3, func(c *siteConfig) { // 64 at once, the default, are too many for two cores: some turns would reach their time limit
		c.env = []string{"TURNSTONE_JOBS_REDIS_URL=" + server.url, "TURNSTONE_JOBS_CONCURRENCY=16"}
	})
	producer, err := jobs.NewClient(jobs.ClientConfig{URL: server.url})
	require.NoError(t, err)
	defer producer.Close()
	id := func(i int) string { return fmt.Sprintf("job-%06d", i) }
	began := time.Now()
	for i := range load {
		prompt := "errand " + id(i)
		if i%10 == 0 {
			prompt += " book reserve"
		}
		require.NoError(t, producer.Push(t.Context(), job.Job{JobID: id(i), Prompt: prompt, Context: job.Context{SessionID: fmt.Sprint("s", i/5)}}))
	}
	pushed := time.Since(began)
	kills := min(50, max(3, load/20))
	for k := range kills {
		s.awaitResults((k + 1) * load / (kills + 2))
		s.killWorker(rand.IntN(len(s.workers)))
		if k == kills/2 {
			server.proc.end(syscall.SIGKILL)
			server.boot(t)
		}
	}
	s.awaitResults(load)
	took := time.Since(began)
	s.verifyJobs(server, producer, load, id)
	t.Logf("%d jobs pushed in %s and answered within %s (%.1f a second) while workers were killed %d times and Redis once", load, pushed.Round(time.Second),
		took.Round(time.Second), float64(load)/took.Seconds(), kills)
}

// awaitResults waits until so many turns have a result.
func (s *site) awaitResults(n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.set.Database.URL.Reveal())
	require.NoError(s.t, err)
	defer conn.Close(context.Background())
	stored, before := 0, 0
	for moved := time.Now(); stored < n; before = stored {
		require.NoError(s.t, conn.QueryRow(s.t.Context(), "SELECT count(*) FROM agent_results").Scan(&stored))
		if stored > before {
			moved = time.Now()
		}
		require.Less(s.t, time.Since(moved), stalled, "%d of %d results are there, and no more come", stored, n)
		require.NoError(s.t, pauseFor(s.t.Context(), 50*time.Millisecond))
	}
}

// verifyJobs checks that every job has one result, that it is the right one, and that nothing is left over.
func (s *site) verifyJobs(server *redisServer, producer *jobs.Client, load int, id func(int) string) {
	t := s.t
	t.Helper()
	for i := range load {
		ctx, cancel := context.WithTimeout(t.Context(), stalled)
		r, err := producer.Wait(ctx, id(i))
		cancel()
		require.NoError(t, err, id(i))
		require.Equal(t, job.StatusCompleted, r.Status, "%s: %+v", id(i), r.Error)
		require.Contains(t, []string{id(i) + " is done", id(i) + " is unknown"}, r.Output)
		calls, _ := s.outside.taken("book", id(i))
		require.LessOrEqual(t, calls, 1, "%s: effects", id(i))
		if i%10 == 0 && r.Output == id(i)+" is done" {
			require.Equal(t, 1, calls, "%s: effects", id(i))
		}
	}
	require.Eventually(t, func() bool {
		left, err := redis.Strings(server.Do(t.Context(), "KEYS", "agent:jobs:processing:*"))
		return err == nil && len(left) == 0
	}, time.Minute, 50*time.Millisecond, "no job is under way")
	for _, pattern := range []string{"agent:results:*", "agent:jobs", "agent:jobs:dead"} {
		left, err := redis.Strings(server.Do(t.Context(), "KEYS", pattern))
		require.NoError(t, err)
		require.Empty(t, left[:min(len(left), 20)], "left over: %s", pattern)
	}
	var turns, results, keys int
	require.NoError(t, s.connect().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM turns), count(*), count(DISTINCT job_id) FROM agent_results").Scan(&turns, &results, &keys))
	require.True(t, slices.Equal([]int{load, load, load}, []int{turns, results, keys}), "%d turns, %d results of %d jobs, want %d of each", turns, results, keys, load)
}
