package turnstone

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus/promhttp"
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

// retentionPort is the retention report together with the schedule of the sweeps.
type retentionPort struct {
	*retention.Reporter
	*cluster.RetentionSchedule
}

// startGateway serves HTTP and gRPC; a listener that fails later ends the service.
func (s *Service) startGateway(ctx, background context.Context) error {
	set := s.cfg.Settings
	if !set.Gateway.Enabled {
		return nil
	}
	doors, err := s.doors(background)
	if err != nil {
		return err
	}
	cfg := gateway.Config{
		HTTPAddr: set.HTTP.Addr, GRPCAddr: set.GRPC.Addr, Ports: s.ports(),
		Metrics: promhttp.HandlerFor(s.telemetry.registry, promhttp.HandlerOpts{}),
		Logger:  s.logger, Version: app.Version(), AllowedHosts: set.HTTP.AllowedHosts, AllowedOrigins: set.HTTP.AllowedOrigins,
		Limits: gateway.Limits{BodyBytes: int64(set.HTTP.MaxBodyBytes), ReadTimeout: set.HTTP.ReadHeaderTimeout}, Doors: doors,
	}
	s.callers.addTo(&cfg)
	s.telemetry.instrumentGateway(&cfg)
	if err := s.addServerTLS(&cfg); err != nil {
		return err
	}
	if s.gateway, err = gateway.New(cfg); err != nil {
		return err
	}
	if err := s.gateway.Start(ctx); err != nil {
		return err
	}
	go func() {
		if err, ok := <-s.gateway.Failed(); ok {
			s.failed <- err
		}
	}()
	return nil
}

// HTTPAddr returns the address at which the gateway serves HTTP, "" without a gateway.
func (s *Service) HTTPAddr() string {
	if s.gateway == nil {
		return ""
	}
	return s.gateway.HTTPAddr()
}

// GRPCAddr returns the address at which the gateway serves gRPC, "" without a gateway.
func (s *Service) GRPCAddr() string {
	if s.gateway == nil {
		return ""
	}
	return s.gateway.GRPCAddr()
}

// ports returns the ports that the gateway serves.
func (s *Service) ports() gateway.Ports {
	box, store := s.inbox, s.store
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

// doors returns the HTTP doors besides the gateway's own routes.
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

// maxCopies is the maximum number of answers of the web chat that are being copied to Telegram. Further ones are not copied.
const maxCopies = 16

// copyToTelegram returns a function that sends an answer of the web chat to the user's linked chats, or nil if that is switched off. It drops
// answers that cannot be sent, and those that are being sent when background ends.
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
			s.logger.Info("answer of the web chat not copied to Telegram: too many are being copied", zap.String("tenant", tenant), zap.String("user", user))
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
