//go:build unix

package e2e_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// drill is one kind of trouble under load. Every part is a process of its own, and what happens to it comes from outside: a signal.
// short is the load of every run of the tests, 0 for none; long is that of `task drill`.
type drill struct {
	short, long int
	run         func(t *testing.T, binary string, load int)
}

func drills() map[string]drill {
	return map[string]drill{
		"kills":    {short: 60, long: 1500, run: drillKills},
		"restarts": {short: 40, long: 600, run: drillRestarts},
		"queue":    {long: 10_000, run: drillQueue}, // TestDrillQueue is its short form
		"jobs":     {short: 200, long: 20_000, run: drillJobs},
		"failover": {long: 400, run: drillFailover},
		"clock":    {long: 200, run: drillClock},
		"restore":  {long: 1, run: drillRestore}, // one turn of each kind
		"upgrade":  {long: 200, run: drillUpgrade},
	}
}

// TestDrill runs the drills, those with a short form at their short load. TURNSTONE_DRILL=long runs all of them at their long load, and
// TURNSTONE_DRILL_LOAD says another load: turns, messages or jobs.
func TestDrill(t *testing.T) {
	t.Parallel()
	long := os.Getenv("TURNSTONE_DRILL") == "long"
	binary := build(t, "faults_effect_worker.go")
	for name, d := range drills() {
		load := d.short
		if long {
			load = d.long
		}
		if text := os.Getenv("TURNSTONE_DRILL_LOAD"); text != "" && load > 0 {
			var err error
			load, err = strconv.Atoi(text)
			require.NoError(t, err, "TURNSTONE_DRILL_LOAD")
		}
		if load > 0 {
			t.Run(name, func(t *testing.T) {
				if !long {
					t.Parallel()
				}
				d.run(t, binary, load)
			})
		}
	}
}

// TestDrillQueue runs the drill "queue" at a short load. No test runs beside it: it compares how long turns take at two times.
func TestDrillQueue(t *testing.T) {
	drillQueue(t, build(t, "faults_effect_worker.go"), 100)
}

// drillKills kills one of three workers at random, again and again while turns run, and starts it again.
func drillKills(t *testing.T, binary string, load int) {
	s := newSite(t, binary, 3)
	kills := max(3, load/28)
	e := s.begin(load)
	for k := range kills {
		e.awaitDone((k + 1) * load / (kills + 2))
		s.killWorker(rand.IntN(len(s.workers)))
	}
	e.verify()
	t.Logf("%d kills; %s", kills, e)
}

// drillRestarts kills and restarts PostgreSQL, Temporal and Redis, one after the other, and freezes a worker for longer than Temporal waits for a sign of
// life, in rounds of 60 turns.
func drillRestarts(t *testing.T, binary string, load int) {
	s := newSite(t, binary, 2)
	rounds := max(1, load/60)
	freeze := 20 * time.Second
	if rounds > 1 {
		freeze = 40 * time.Second
	}
	e := s.begin(load)
	part := 0
	for range rounds {
		for _, trouble := range []func(){
			s.killPostgres,
			s.killTemporal,
			func() { s.freezeWorker(rand.IntN(len(s.workers)), freeze) },
		} {
			part++
			e.awaitDone(part * load / (3*rounds + 1))
			trouble()
		}
	}
	e.verify()
	t.Logf("%d rounds of PostgreSQL and Temporal killed and a worker frozen for %s; %s", rounds, freeze, e)
}
