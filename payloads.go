package turnstone

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/codec"
)

// sweepPayloads is the interval at which old offloaded payloads are removed.
const sweepPayloads = time.Hour

// encode adds the encryption and offloading of payloads to the options of a Temporal client, as the settings say. Payloads that were
// offloaded earlier can be read with any settings.
func (s *Service) encode(options client.Options) (_ client.Options, err error) {
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

// forgetPayloads removes offloaded payloads that no history can need, at intervals until ctx ends, unless the retention removes them.
func (s *Service) forgetPayloads(ctx context.Context) {
	set := &s.cfg.Settings.Temporal
	if set.OffloadBytes <= 0 || s.swept() {
		return
	}
	s.goUpkeep(func() {
		every := time.NewTicker(sweepPayloads)
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
