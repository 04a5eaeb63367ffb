// Package devstack runs everything that turns need on one machine: a Temporal server with its Web UI, a private PostgreSQL, a sample HTTP API, a
// small Redis and a mail server. All of them listen on the loopback address only.
//
// The Temporal server is that of an installed temporal command ([TemporalCLI]) or the one in package embedded.
package devstack

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// Config is the configuration of [Start]. Start does not start servers whose configuration is nil.
type Config struct {
	// DataDir has a folder for the state of each server. If it is empty, the servers keep nothing.
	DataDir string

	// AnyPort takes a free port in place of one that is in use. Without it, Start fails with ErrPortInUse.
	AnyPort bool

	// Temporal configures the Temporal server. Start sets its DataDir, AnyPort and Logger.
	Temporal *TemporalConfig

	// StartTemporal starts the Temporal server.
	StartTemporal StartTemporal

	// Postgres configures the private database. Start sets its DataDir, Ephemeral, Logger and Progress.
	Postgres *pgdev.Config

	// Flights configures the sample API.
	Flights *FlightsConfig

	// Redis configures the Redis for jobs.
	Redis *RedisConfig

	// Mail configures the mail server for notifications.
	Mail *MailConfig

	// Logger receives the warnings of the servers. Nil discards them.
	Logger *zap.Logger

	// Progress, if set, is called with short texts about steps that take time. Calls do not overlap.
	Progress func(string)
}

// FlightsConfig is the configuration of the sample API.
type FlightsConfig struct {
	Port int // 0: any free port
}

// MailConfig is the configuration of the mail server.
type MailConfig struct {
	Port   int        // 0: any free port
	OnMail func(Mail) // called with each mail before the server confirms it; calls do not overlap
}

// Stack is a set of running servers. Those that were not configured are nil.
type Stack struct {
	Temporal Temporal
	Postgres *pgdev.Server
	Flights  *FlightsServer
	Redis    *Redis
	Mail     *MailServer
}

// Start starts all configured servers at the same time and waits for them. If one fails, Start stops the others and returns all errors. ctx bounds
// the start only.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	progress := serialize(cfg.Progress)
	stack := &Stack{}
	var starting sync.WaitGroup
	var faults [5]error
	if cfg.Temporal != nil {
		starting.Go(func() {
			progress("starting the Temporal server…")
			stack.Temporal, faults[0] = cfg.StartTemporal(ctx, cfg.temporal())
		})
	}
	if cfg.Postgres != nil {
		starting.Go(func() { stack.Postgres, faults[1] = pgdev.Start(ctx, cfg.postgres(progress)) })
	}
	if cfg.Flights != nil {
		starting.Go(func() { stack.Flights, faults[2] = startFlights(cfg.Flights.Port, cfg.AnyPort) })
	}
	if cfg.Redis != nil {
		starting.Go(func() { stack.Redis, faults[3] = startRedis(cfg.Redis.Port) })
	}
	if cfg.Mail != nil {
		starting.Go(func() { stack.Mail, faults[4] = startMail(*cfg.Mail) })
	}
	starting.Wait()
	if err := errors.Join(faults[:]...); err != nil {
		return nil, errors.Join(err, stack.Close(context.WithoutCancel(ctx)))
	}
	return stack, nil
}

// Close stops all servers. Stop workers and clients first. When ctx ends, Close stops the database at once. Closing again does nothing.
func (s *Stack) Close(ctx context.Context) error {
	var faults []error
	if s.Redis != nil {
		s.Redis.Close()
	}
	if s.Flights != nil {
		faults = append(faults, s.Flights.Stop(ctx))
	}
	if s.Mail != nil {
		faults = append(faults, s.Mail.Close())
	}
	if s.Temporal != nil {
		faults = append(faults, s.Temporal.Stop())
	}
	if s.Postgres != nil {
		faults = append(faults, s.Postgres.Stop(ctx))
	}
	return errors.Join(faults...)
}

func (c Config) temporal() TemporalConfig {
	temporal := *c.Temporal
	temporal.DataDir = c.folder("temporal")
	temporal.AnyPort = c.AnyPort
	temporal.Logger = c.Logger.Named("temporal")
	return temporal
}

func (c Config) postgres(progress func(string)) pgdev.Config {
	postgres := *c.Postgres
	postgres.DataDir = c.folder("postgres")
	postgres.Ephemeral = c.DataDir == ""
	postgres.Logger = c.Logger.Named("postgres")
	postgres.Progress = progress
	return postgres
}

// folder returns the folder for the state of a server, or "" if it keeps nothing.
func (c Config) folder(name string) string {
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, name)
}

// serialize returns a function that calls progress, which may be nil, for one caller at a time.
func serialize(progress func(string)) func(string) {
	if progress == nil {
		return func(string) {}
	}
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		progress(text)
	}
}
