package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// minMajor is the oldest supported release of PostgreSQL: the event log needs multiranges.
const minMajor = 14

// Timeouts that the server enforces for every connection, unless the URL sets others. Statements take milliseconds, so only a fault reaches
// them.
const (
	statementTimeout = "30s"
	lockTimeout      = "15s" // a session's row is locked for two round trips
	idleInTxTimeout  = "15s" // how long a session stays locked if a client dies between the two batches of a transaction
)

const attemptTimeout = 5 * time.Second

// Open connects to PostgreSQL. The server must have release 14 or newer, and the database the encoding UTF-8. While the server does not
// answer, Open retries, and after [Config.ConnectTimeout] it fails with [agent.CodeUnavailable]. It fails at once with [agent.CodeInvalid] if
// the URL, the credentials, the database name, the release or the encoding is wrong. Times that queries return are in UTC.
func Open(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	c = c.withDefaults()
	cfg, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInvalid, Op: "open postgres", Field: "url", Err: err}
	}
	cfg.MaxConns = c.MaxConns
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 10 * time.Minute
	cfg.MaxConnIdleTime = 10 * time.Minute
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = attemptTimeout
	}
	for name, value := range map[string]string{
		"application_name":                    "turnstone",
		"statement_timeout":                   statementTimeout,
		"lock_timeout":                        lockTimeout,
		"idle_in_transaction_session_timeout": idleInTxTimeout,
		"default_transaction_isolation":       "read committed", // all statements rely on it
		"random_page_cost":                    "1.1",            // for solid-state disks; the default makes PostgreSQL scan small tables without an index
		"jit":                                 "off",            // compiling takes longer than any statement
	} {
		if _, isSet := cfg.ConnConfig.RuntimeParams[name]; !isSet {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	cfg.AfterConnect = prepareConnection

	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, mapError("open postgres", err)
	}
	if err := waitForServer(ctx, pool, c); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func waitForServer(ctx context.Context, pool *pgxpool.Pool, c Config) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 100 * time.Millisecond
	retry.MaxInterval = 3 * time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := pool.Ping(ctx)
		if err != nil && isPermanent(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	},
		backoff.WithBackOff(retry),
		backoff.WithMaxElapsedTime(c.ConnectTimeout),
		backoff.WithNotify(func(err error, wait time.Duration) {
			c.Logger.Warn("PostgreSQL does not answer, trying again", zap.Duration("wait", wait), zap.Error(err))
		}),
	)
	switch {
	case err == nil:
		return nil
	case isPermanent(err):
		return &agent.Error{Code: agent.CodeInvalid, Op: "open postgres", Err: err}
	default:
		return &agent.Error{Code: agent.CodeUnavailable, Op: "open postgres", Err: err}
	}
}

// isPermanent reports whether retrying cannot help, because the server refuses the credentials or the database, or cannot be used.
func isPermanent(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(pg.Code, "28"), // authorization
			pg.Code == "3D000", // no such database
			pg.Code == "42704": // no such setting
			return true
		}
	}
	return errors.Is(err, errUnusableServer)
}

var errUnusableServer = errors.New("this PostgreSQL cannot be used")

// prepareConnection checks the server of a new connection, and makes the connection return times in UTC.
func prepareConnection(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	version := conn.PgConn().ParameterStatus("server_version")
	digits, _, _ := strings.Cut(version, ".")
	digits, _, _ = strings.Cut(digits, " ")
	if major, err := strconv.Atoi(digits); err == nil && major < minMajor {
		return fmt.Errorf("%w: release %s, want %d or newer", errUnusableServer, version, minMajor)
	}
	if enc := conn.PgConn().ParameterStatus("server_encoding"); enc != "UTF8" {
		return fmt.Errorf("%w: the database is encoded in %s, want UTF8", errUnusableServer, enc)
	}
	return nil
}
