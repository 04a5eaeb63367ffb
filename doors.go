package turnstone

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/apidoc"
	"github.com/turnstone-run/turnstone/internal/gateway/chat"
	"github.com/turnstone-run/turnstone/internal/gateway/codec"
	"github.com/turnstone-run/turnstone/internal/gateway/console"
	erasuredoor "github.com/turnstone-run/turnstone/internal/gateway/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway/links"
	"github.com/turnstone-run/turnstone/internal/gateway/openai"
	retentiondoor "github.com/turnstone-run/turnstone/internal/gateway/retention"
	"github.com/turnstone-run/turnstone/internal/gateway/schedules"
	"github.com/turnstone-run/turnstone/internal/gateway/usage"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

var (
	_ links.Store  = (*postgres.Store)(nil)
	_ usage.Ledger = (*postgres.Store)(nil)
)

// doors returns the HTTP doors besides the gateway's own.
func (s *Service) doors(background context.Context, store *postgres.Store) ([]gateway.Door, error) {
	clock, err := schedules.New(s.schedules, s.parts.Registry)
	if err != nil {
		return nil, err
	}
	linked, err := links.New(store, s.callers.trail, s.chats()...)
	if err != nil {
		return nil, err
	}
	costs, err := usage.New(store)
	if err != nil {
		return nil, err
	}
	kept, err := retentiondoor.New(s.upkeep.reporter, s.upkeep.schedule, s.callers.trail)
	if err != nil {
		return nil, err
	}
	erased, err := erasuredoor.New(s.upkeep.requests, s.callers.trail)
	if err != nil {
		return nil, err
	}
	described, err := apidoc.New()
	if err != nil {
		return nil, err
	}
	all := []gateway.Door{
		ws.New(ws.Config{Logger: s.logger.Named("ws")}), openai.New(), chat.New(s.copyToTelegram(background)), clock, linked, costs, kept, erased, described,
	}
	if s.codec.On() {
		decoding, err := codec.New(s.codec, s.cfg.Settings.HTTP.CodecOrigins)
		if err != nil {
			return nil, err
		}
		all = append(all, decoding)
	}
	if set := &s.cfg.Settings.Console; set.Enabled {
		page, err := console.New(console.Config{UIURL: set.UIURL, Namespace: s.namespace})
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		all = append(all, page)
	}
	return all, nil
}

// maxCopies is how many answers of the web chat are on their way to Telegram at once; further ones are not copied.
const maxCopies = 16

// copyToTelegram returns a function that sends an answer of the web chat to the chats that the user has linked, or nil if nothing is to be
// sent. It drops answers that cannot be sent, and those under way when background ends.
func (s *Service) copyToTelegram(background context.Context) func(tenant, user, text string) {
	if s.bot == nil || !s.cfg.Settings.Telegram.CopyWebChat {
		return nil
	}
	s.copies.SetLimit(maxCopies)
	return func(tenant, user, text string) {
		begun := s.copies.TryGo(func() error {
			if err := s.bot.Notify(background, tenant, user, text); err != nil && agent.CodeOf(err) != agent.CodeNotFound {
				s.logger.Info("answer of the web chat not copied to Telegram", zap.String("tenant", tenant), zap.String("user", user), zap.Error(err))
			}
			return nil
		})
		if !begun {
			s.logger.Info("answer of the web chat not copied to Telegram: too many are on their way", zap.String("tenant", tenant), zap.String("user", user))
		}
	}
}

// chats returns the channels whose chats may be linked to users.
func (s *Service) chats() []links.Channel {
	if s.bot == nil {
		return nil
	}
	c := links.Channel{Name: "telegram", URL: s.bot.LinkURL}
	if s.cfg.Settings.Telegram.Updates == app.TelegramWebhook {
		c.Webhook = s.bot
	}
	return []links.Channel{c}
}
