// Package devstack runs everything that turns need on a machine that has nothing: a Temporal server with its Web UI,
// a private PostgreSQL, a sample HTTP API, a small Redis and a mail server. All of it listens on the loopback address only.
//
// The Temporal server is the one of an installed temporal CLI ([TemporalCLI]), or the one that package embedded links.
package devstack

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// Config is the configuration of [Start]. A part that is nil is not started.
type Config struct {
	// DataDir keeps the state of all parts, each in a folder of its own. Empty keeps nothing.
	DataDir string

	// AnyPort takes a free port where a wanted one is in use, instead of failing with ErrPortInUse.
	AnyPort bool

	// Temporal is the server; its DataDir, AnyPort and Logger are taken from this Config.
	Temporal *TemporalConfig

	// StartTemporal starts it.
	StartTemporal StartTemporal

	// Postgres is the private database; its DataDir, Ephemeral, Logger and Progress are taken from this Config.
	Postgres *pgdev.Config

	// Flights is the sample API.
	Flights *FlightsConfig

	// Redis is the server of jobs.
	Redis *RedisConfig

	// Mail is the mail server for notifications.
	Mail *MailConfig

	// Logger receives warnings of the parts. Nil discards.
	Logger *zap.Logger

	// Progress is called with short texts about what takes time. Nil discards. Calls never overlap.
	Progress func(string)
}

// FlightsConfig is the configuration of the sample API.
type FlightsConfig struct {
	Port int // 0 takes any free one
}

// MailConfig is the configuration of the mail server.
type MailConfig struct {
	Port   int        // 0 takes any free one
	OnMail func(Mail) // is called with every mail, one at a time, before its sender is answered
}

// Stack has the started parts. The others are nil.
type Stack struct {
	Temporal Temporal
	Postgres *pgdev.Server
	Flights  *FlightsServer
	Redis    *Redis
	Mail     *MailServer
}

// Start starts the parts side by side and waits for all. When one fails, those that did start are stopped and
// every fault is reported. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	progress := serialize(cfg.Progress)
	stack := &Stack{}
	// Not WithContext: the error of a cancelled part would hide that of the part that failed.
	var group errgroup.Group
	var faults [5]error
	if cfg.Temporal != nil {
		group.Go(func() error {
			progress("starting the Temporal server…")
			stack.Temporal, faults[0] = cfg.StartTemporal(ctx, cfg.temporal())
			return faults[0]
		})
	}
	if cfg.Postgres != nil {
		group.Go(func() error {
			stack.Postgres, faults[1] = pgdev.Start(ctx, cfg.postgres(progress))
			return faults[1]
		})
	}
	if cfg.Flights != nil {
		group.Go(func() error {
			stack.Flights, faults[2] = startFlights(ctx, cfg.Flights.Port, cfg.AnyPort)
			return faults[2]
		})
	}
	if cfg.Redis != nil {
		group.Go(func() error {
			stack.Redis, faults[3] = startRedis(cfg.Redis.Port)
			return faults[3]
		})
	}
	if cfg.Mail != nil {
		group.Go(func() error {
			stack.Mail, faults[4] = startMail(ctx, *cfg.Mail)
			return faults[4]
		})
	}
	if group.Wait() != nil {
		return nil, errors.Join(append(faults[:], stack.Close(context.WithoutCancel(ctx)))...)
	}
	return stack, nil
}

// Close stops the parts in the order in which they use each other: Redis, the sample API, the mail server, the Temporal server, the
// database. Workers and clients are the caller's to stop before. When ctx ends first the database is stopped at
// once; nothing is left running in any case. Closing again does nothing.
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

// folder returns the folder of a part's state; empty if nothing is kept.
func (c Config) folder(part string) string {
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, part)
}

// serialize returns progress, which may be nil, for one caller at a time.
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
