package turnstone

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/cluster"
	payloads "github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/apidoc"
	"github.com/turnstone-run/turnstone/internal/gateway/chat"
	"github.com/turnstone-run/turnstone/internal/gateway/console"
	"github.com/turnstone-run/turnstone/internal/gateway/openai"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
)

var (
	_ gateway.Finder        = (*postgres.FindStore)(nil)
	_ gateway.Links         = (*postgres.LinkStore)(nil)
	_ gateway.Usage         = (*postgres.UsageStore)(nil)
	_ gateway.Schedules     = (*cluster.AgentSchedules)(nil)
	_ gateway.SchedulePlans = (*catalog.Registry)(nil)
	_ gateway.Erasures      = (*erasure.Requests)(nil)
	_ gateway.Codec         = (*payloads.Codec)(nil)
)

// retentionPort joins the reports on what is kept and the schedule of the sweeps.
type retentionPort struct {
	*retention.Reporter
	*cluster.RetentionSchedule
}

// ports returns what the gateway serves.
func (s *Service) ports(store *postgres.Store, box *inbox.Inbox) gateway.Ports {
	p := gateway.Ports{
		Turns: box, Results: box, Sessions: box, Approvals: box, Knowledge: box, Workflows: box, Runs: box, Composites: box, Doctor: box, Health: box,
		Finder: store.FindStore, Agents: s.parts.Registry, Documents: s.parts.Registry, Schedules: s.schedules, SchedulePlans: s.parts.Registry,
		Links: store.LinkStore, LinkChannels: s.linkChannels(), Usage: store.UsageStore, Erasures: s.upkeep.requests,
		Retention: retentionPort{s.upkeep.reporter, s.upkeep.schedule}, CodecOrigins: s.cfg.Settings.HTTP.CodecOrigins,
	}
	if s.codec.On() {
		p.Codec = s.codec
	}
	return p
}

// doors returns the ways in over HTTP besides the gateway's own.
func (s *Service) doors(background context.Context) ([]gateway.Door, error) {
	described, err := apidoc.New()
	if err != nil {
		return nil, err
	}
	all := []gateway.Door{
		ws.New(ws.Config{Logger: s.logger.Named("ws")}), openai.New(), chat.New(s.copyToTelegram(background)), described,
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

// linkChannels returns the channels whose chats can be linked to users.
func (s *Service) linkChannels() []gateway.LinkChannel {
	if s.bot == nil {
		return nil
	}
	c := gateway.LinkChannel{Name: "telegram", URL: s.bot.LinkURL}
	if s.cfg.Settings.Telegram.Updates == app.TelegramWebhook {
		c.Webhook = s.bot
	}
	return []gateway.LinkChannel{c}
}
