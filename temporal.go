package turnstone

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/codec"
)

// temporalPatience is how long a start waits for Temporal, as long as for PostgreSQL: both may be starting too.
const temporalPatience = 30 * time.Second

// openTemporal connects to Temporal, and watches whether the search attributes are registered.
func (s *Service) openTemporal(ctx, background context.Context) error {
	options, err := app.TemporalOptions(s.cfg.Settings.Temporal, s.cfg.Env)
	if err != nil {
		return err
	}
	options.Logger = app.TemporalLogger(s.logger)
	if options, err = s.encodePayloads(options); err != nil {
		return err
	}
	if options, err = s.telemetry.instrumentClient(options, s); err != nil {
		return err
	}
	s.namespace = options.Namespace
	s.temporal, err = backoff.Retry(ctx, func() (client.Client, error) { return client.DialContext(ctx, options) },
		backoff.WithMaxElapsedTime(temporalPatience))
	if err != nil {
		return fmt.Errorf("connect to Temporal at %s: %w", options.HostPort, err)
	}
	s.watch = &cluster.AttributeWatch{Temporal: s.temporal, Namespace: s.namespace, Logger: s.logger}
	if err := s.watch.Check(ctx); err != nil {
		return fmt.Errorf("look at the namespace: %w", err)
	}
	s.tasks.Go(func() { s.watch.Run(background) })
	return nil
}

// payloadSweepEvery is the interval at which old offloaded payloads are removed.
const payloadSweepEvery = time.Hour

// encodePayloads adds the encryption and offloading of payloads to the options of a Temporal client, as the settings say. Payloads that were
// offloaded earlier can be read with any settings.
func (s *Service) encodePayloads(options client.Options) (_ client.Options, err error) {
	set := &s.cfg.Settings.Temporal
	cfg := codec.Config{Threshold: int(set.OffloadBytes)}
	if keys := set.EncryptionKeys.Reveal(); keys != "" {
		if cfg.Keys, err = codec.ParseKeyList(keys); err != nil {
			return options, fmt.Errorf("temporal.encryption_keys: %w", err)
		}
	}
	if set.OffloadBytes > 0 {
		cfg.Objects = s.blobs.Payloads()
	}
	if s.codec, err = codec.New(cfg); err != nil {
		return options, err
	}
	return s.codec.Options(options), nil
}

// sweepPayloads removes offloaded payloads that no history can need, at intervals until ctx ends, unless the retention removes them.
func (s *Service) sweepPayloads(ctx context.Context) {
	set := &s.cfg.Settings.Temporal
	if set.OffloadBytes <= 0 || s.hasSweeps() {
		return
	}
	s.goUpkeep(func() {
		every := time.NewTicker(payloadSweepEvery)
		defer every.Stop()
		for {
			if n, err := s.blobs.Payloads().Sweep(ctx, time.Now().Add(-set.OffloadKeep)); err != nil && ctx.Err() == nil {
				s.logger.Warn("remove offloaded payloads", zap.Int("removed", n), zap.Error(err))
			}
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
}
