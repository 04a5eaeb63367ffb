// Package devstack is everything a machine without anything needs to run turns: a Temporal server with its Web UI,
// a private PostgreSQL, a sample HTTP API, a small Redis and a mail server, in one process and one child.
//
// This package alone links the Temporal server. Its parts that do not, pgdev and flightsapi, are packages of their
// own, for tests and programs that must stay small. All of it listens on the loopback address only.
package devstack

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/internal/devstack/flightsapi"
	"github.com/turnstone-run/turnstone/internal/devstack/mailbox"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// Config says which parts to start. A part left nil is not started: the caller has one elsewhere.
type Config struct {
	// DataDir keeps the state of all parts, each in a folder of its own. Empty keeps nothing.
	DataDir string

	// AnyPort takes a free port where a wanted one is in use, instead of failing with ErrPortInUse.
	AnyPort bool

	// Temporal is the server; its DataDir, AnyPort and Logger are taken from this Config.
	Temporal *TemporalConfig

	// Postgres is the private database; its DataDir, Ephemeral, Logger and Progress are taken from this Config.
	Postgres *pgdev.Config

	// Flights is the sample API.
	Flights *FlightsConfig

	// Redis is where jobs come from.
	Redis *RedisConfig

	// Mail is the mail server that notifications go to.
	Mail *MailConfig

	// Logger receives warnings of the parts. Nil discards.
	Logger *zap.Logger

	// Progress is told, in a few words for a person, what is taking time. Nil discards. Calls never overlap.
	Progress func(string)
}

// FlightsConfig describes the sample API.
type FlightsConfig struct {
	Port int // 0 takes any free one
}

// MailConfig describes the mail server, which delivers nothing.
type MailConfig struct {
	Port  int                // 0 takes any free one
	Heard func(mailbox.Mail) // is told of every mail; nil: nobody is
}

// Stack is what was started. Parts not asked for are nil.
type Stack struct {
	Temporal *Temporal
	Postgres *pgdev.Server
	Flights  *flightsapi.Server
	Redis    *Redis
	Mail     *mailbox.Server
}

// Start starts the parts side by side and waits for all. When one fails, those that did start are stopped and
// every fault is reported. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	progress := serialised(cfg.Progress)
	stack := &Stack{}
	// Not WithContext: a part that is told to give up would hide what the other one did wrong.
	var group errgroup.Group
	var faults [5]error
	if cfg.Temporal != nil {
		group.Go(func() error {
			progress("starting the Temporal server…")
			stack.Temporal, faults[0] = StartTemporal(ctx, cfg.temporal())
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

// folder is where a part keeps its state; empty when nothing is kept.
func (c Config) folder(part string) string {
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, part)
}

func startFlights(ctx context.Context, port int, anyPort bool) (*flightsapi.Server, error) {
	ports, err := choosePorts(anyPort, wantedPort{"the sample flights API", port})
	if err != nil {
		return nil, err
	}
	return flightsapi.Start(ctx, hostPort(ports[0]))
}

// startMail takes a free port where the wanted one is in use.
func startMail(ctx context.Context, cfg MailConfig) (*mailbox.Server, error) {
	ports, err := choosePorts(true, wantedPort{"the mail server", cfg.Port})
	if err != nil {
		return nil, err
	}
	return mailbox.Start(ctx, hostPort(ports[0]), mailbox.Config{Heard: cfg.Heard})
}

// serialised lets one caller at a time through to progress, which may be nil.
func serialised(progress func(string)) func(string) {
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
