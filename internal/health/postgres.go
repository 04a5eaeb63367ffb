package health

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Database is PostgreSQL as the probes ask it.
type Database struct {
	// Row runs a query that answers one row, and scans it.
	Row func(ctx context.Context, sql string, dest ...any) error
	// Pool says how many of this process's connections are in use, and how many there may be.
	Pool func() (used, most int)
	// Try runs statements in one transaction, and rolls it back.
	Try func(ctx context.Context, statements ...string) error
	// Schema is the version that this process has brought the schema to; 0: not known, nothing is said of it.
	Schema int

	wrote time.Time // when a write last went well; the probe alone uses it, and never twice at a time
}

const (
	// sqlState asks for all that is said of the server at once. Everybody may read it, whatever his grants.
	sqlState = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
  coalesce((SELECT sum(numbackends) FROM pg_stat_database), 0)::int,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int,
  current_setting('server_version')`
	sqlSchema = `SELECT version FROM turnstone_schema_version`
	sqlClock  = `SELECT extract(epoch FROM clock_timestamp())::float8`

	// sqlSpill writes a megabyte to a temporary file of the server. It needs no table and no rights. The settings before it make it write
	// at once, and to the disk of the database.
	sqlLittleMemory = `SET LOCAL work_mem = '64kB'`
	sqlOwnDisk      = `SET LOCAL temp_tablespaces = ''`
	sqlSpill        = `WITH spilled AS MATERIALIZED (SELECT repeat('x', 8000) AS text FROM generate_series(1, 128)) SELECT count(text) FROM spilled`
	// writeEvery is how long a write that went well is taken for proof that the next does.
	writeEvery = 10 * time.Second

	// crowded is how full the server may be before it is said.
	crowded = 0.9
	// maxSkew is how far the clocks may be apart. Leases are longer.
	maxSkew = 5 * time.Second
)

// Probe asks whether the database serves turns. One that cannot be written to is down.
func (d *Database) Probe() Probe { return Probe{Name: Postgres, Ask: d.ask} }

func (d *Database) ask(ctx context.Context) (Finding, error) {
	var standby, readOnly bool
	var sessions, room int
	var release string
	if err := d.Row(ctx, sqlState, &standby, &readOnly, &sessions, &room, &release); err != nil {
		if used, most := d.Pool(); used >= most && errors.Is(err, context.DeadlineExceeded) {
			return Finding{Down, fmt.Sprintf("all %d connections are taken, and none came free", most), hintPool}, nil
		}
		return Finding{}, err
	}
	used, most := d.Pool()
	detail := fmt.Sprintf("PostgreSQL %s, %d of %d connections in use, %d of the server's %d", release, used, most, sessions, room)
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
	case used >= most:
		return Finding{Degraded, detail, hintPool}, nil
	case float64(sessions) >= crowded*float64(room):
		return Finding{Degraded, detail, hintBudget}, nil
	}
	return Finding{State: OK, Detail: detail}, nil
}

// write reports why the database cannot write. One whose disk is full goes on reading.
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

// schema compares what the database has with what this process brought it to.
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

// SchemaVersion is the version of the schema now: ask it right after migrating, for [Database.Schema].
func (d *Database) SchemaVersion(ctx context.Context) (version int, err error) {
	return version, d.Row(ctx, sqlSchema, &version)
}

// ClockProbe asks whether this machine and the database agree on the time. What is wrong with the database itself is not said here again.
func (d *Database) ClockProbe() Probe {
	return Probe{Name: Clock, Late: OK, Every: 10 * time.Second, Ask: func(ctx context.Context) (Finding, error) {
		var epoch float64
		sent := time.Now()
		if err := d.Row(ctx, sqlClock, &epoch); err != nil {
			return Finding{State: OK, Detail: "not known while the database does not answer"}, nil //nolint:nilerr // said by the other probe
		}
		took := time.Since(sent)
		return skew(time.Duration((epoch-seconds(sent.Add(took/2)))*float64(time.Second)), took), nil
	}}
}

// skew judges how far the database's clock is ahead. What the question took is not held against it.
func skew(ahead, took time.Duration) Finding {
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
