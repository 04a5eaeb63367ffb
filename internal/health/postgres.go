package health

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Database is PostgreSQL for the probes.
type Database struct {
	// Row runs a query and scans its one row.
	Row func(ctx context.Context, sql string, dest ...any) error
	// Pool returns how many connections of this process are in use, and how many there may be.
	Pool func() (used, limit int)
	// Try runs statements in one transaction, and rolls it back.
	Try func(ctx context.Context, statements ...string) error
	// Schema is the version of the schema that this process works with; 0: not compared.
	Schema int

	wrote time.Time // when a write last succeeded; only the probe uses it
}

const (
	// sqlState selects the state of the server. It needs no grants.
	sqlState = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
  coalesce((SELECT sum(numbackends) FROM pg_stat_database), 0)::int,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int,
  current_setting('server_version')`
	sqlSchema = `SELECT version FROM turnstone_schema_version`
	sqlClock  = `SELECT extract(epoch FROM clock_timestamp())::float8`

	// sqlSpill writes a megabyte to a temporary file of the server. It needs no table and no grants. The settings before it make it write at once,
	// and to the disk of the database.
	sqlLittleMemory = `SET LOCAL work_mem = '64kB'`
	sqlOwnDisk      = `SET LOCAL temp_tablespaces = ''`
	sqlSpill        = `WITH spilled AS MATERIALIZED (SELECT repeat('x', 8000) AS text FROM generate_series(1, 128)) SELECT count(text) FROM spilled`
	// writeEvery is the time between two writes.
	writeEvery = 10 * time.Second

	// maxLoad is the share of the server's connections above which it is degraded.
	maxLoad = 0.9
	// maxSkew is how far the clocks may differ. Leases are longer.
	maxSkew = 5 * time.Second
)

// Probe checks whether the database serves turns. A database that refuses writes is down.
func (d *Database) Probe() Probe { return Probe{Name: Postgres, Ask: d.ask} }

func (d *Database) ask(ctx context.Context) (Finding, error) {
	var standby, readOnly bool
	var sessions, room int
	var release string
	if err := d.Row(ctx, sqlState, &standby, &readOnly, &sessions, &room, &release); err != nil {
		if used, limit := d.Pool(); used >= limit && errors.Is(err, context.DeadlineExceeded) {
			return Finding{Down, fmt.Sprintf("all %d connections are taken, and none came free", limit), hintPool}, nil
		}
		return Finding{}, err
	}
	used, limit := d.Pool()
	detail := fmt.Sprintf("PostgreSQL %s, %d of %d connections in use, %d of the server's %d", release, used, limit, sessions, room)
	switch {
	case standby:
		return Finding{Down, detail + ": a standby in recovery", hintStandby}, nil
	case readOnly:
		return Finding{Down, detail + ": read-only", hintReadOnly}, nil
	}
	if f, err := d.schema(ctx, detail); err != nil || f.State != OK {
		return f, err
	}
	if err := d.write(ctx); err != nil {
		return Finding{Down, detail + ": reads work, writes fail: " + err.Error(), hintOf(Postgres, err)}, nil
	}
	switch {
	case used >= limit:
		return Finding{Degraded, detail, hintPool}, nil
	case float64(sessions) >= maxLoad*float64(room):
		return Finding{Degraded, detail, hintBudget}, nil
	}
	return Finding{State: OK, Detail: detail}, nil
}

// write returns an error if the database cannot write. With a full disk it can still read.
func (d *Database) write(ctx context.Context) error {
	if d.Try == nil || time.Since(d.wrote) < writeEvery {
		return nil
	}
	if err := d.Try(ctx, sqlLittleMemory, sqlOwnDisk, sqlSpill); err != nil {
		return err
	}
	d.wrote = time.Now()
	return nil
}

// schema compares the version of the schema with that of this process.
func (d *Database) schema(ctx context.Context, detail string) (Finding, error) {
	if d.Schema == 0 {
		return Finding{State: OK}, nil
	}
	var version int
	if err := d.Row(ctx, sqlSchema, &version); err != nil {
		return Finding{}, err
	}
	detail += fmt.Sprintf(", schema %d, this release's is %d", version, d.Schema)
	switch {
	case version > d.Schema:
		return Finding{Degraded, detail, hintNewerSchema}, nil
	case version < d.Schema:
		return Finding{Down, detail, hintOlderSchema}, nil
	}
	return Finding{State: OK}, nil
}

// ClockProbe checks whether the clocks of this machine and the database agree. It does not repeat problems of the database.
func (d *Database) ClockProbe() Probe {
	return Probe{Name: Clock, Late: OK, Every: 10 * time.Second, Ask: func(ctx context.Context) (Finding, error) {
		var epoch float64
		sent := time.Now()
		if err := d.Row(ctx, sqlClock, &epoch); err != nil {
			return Finding{State: OK, Detail: "not known while the database does not answer"}, nil //nolint:nilerr // the other probe reports it
		}
		took := time.Since(sent)
		return clockFinding(time.Duration((epoch-seconds(sent.Add(took/2)))*float64(time.Second)), took), nil
	}}
}

// clockFinding returns the finding about the database's clock. It subtracts the time of the query.
func clockFinding(ahead, took time.Duration) Finding {
	apart := max(0, time.Duration(math.Abs(float64(ahead)))-took/2)
	where := "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	detail := fmt.Sprintf("the database's clock is %s %s this machine's", apart.Round(time.Millisecond), where)
	if apart > maxSkew {
		return Finding{Degraded, detail, hintClock}
	}
	return Finding{State: OK, Detail: detail}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
