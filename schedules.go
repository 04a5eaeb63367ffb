package turnstone

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/schedules"
	"github.com/turnstone-run/turnstone/internal/schema"
)

var (
	_ schedules.Store       = (*postgres.Store)(nil)
	_ schedules.Inbox       = (*inbox.Inbox)(nil)
	_ schedules.People      = (*telegram.Channel)(nil)
	_ cluster.ScheduleStore = (*postgres.ScheduleStore)(nil)
	_ telegram.Store        = (*postgres.Store)(nil)
)

// openSchedules opens the schedules of agents, and keeps Temporal's schedules in step with the stored ones until background ends.
func (s *Service) openSchedules(_, background context.Context) (err error) {
	set := s.cfg.Settings
	s.schedules, err = cluster.NewAgentSchedules(cluster.AgentScheduleConfig{
		Store: s.store.ScheduleStore, Schedules: s.temporal.ScheduleClient(), Starter: s.temporal, TaskQueue: set.Temporal.TaskQueue,
		Data: s.codec.Data(), Schemas: schema.New(), MaxPerTenant: set.Schedules.MaxPerTenant, Logger: s.logger.Named("schedules"),
	})
	if err != nil {
		return err
	}
	if every := set.Workflows.ReconcileEvery; every > 0 {
		s.goUpkeep(func() {
			if err := s.schedules.Run(background, every); err != nil {
				s.logger.Error("schedules of agents are no longer reconciled", zap.Error(err))
			}
		})
	}
	return nil
}

// scheduledRuns returns the use cases of scheduled runs.
func (s *Service) scheduledRuns() (*schedules.Runs, error) {
	cfg := schedules.Config{
		Store: s.store, Inbox: s.inbox, Keep: s.cfg.Settings.Schedules.KeepRuns, Logger: s.logger.Named("schedules"),
		Webhooks: &notifications.Webhooks{HTTP: s.parts.Patient, Auth: s.parts.Auth, Profiles: s.parts.Registry},
	}
	mailer, err := s.mailer()
	if err != nil {
		return nil, err
	}
	if mailer != nil {
		cfg.Mailer = mailer
	}
	if s.bot != nil {
		cfg.People = s.bot
	}
	return schedules.New(cfg)
}

// mailer returns the mailer, nil if no mail server is configured.
func (s *Service) mailer() (*notifications.Mailer, error) {
	mail := s.cfg.Settings.Workflows.SMTP
	if mail.Addr == "" {
		return nil, nil //nolint:nilnil // no server, no mailer
	}
	mailer, err := notifications.NewMailer(notifications.Config{
		Addr: mail.Addr, From: mail.From, DefaultTo: mail.To, AllowTo: mail.AllowTo, Username: mail.Username, Password: mail.Password.Reveal(),
		TLS: mail.TLS,
	})
	if err != nil {
		return nil, fmt.Errorf("workflows.smtp: %w", err)
	}
	return mailer, nil
}

// openBot opens the Telegram bot, if one is configured.
func (s *Service) openBot(context.Context, context.Context) (err error) {
	set := &s.cfg.Settings.Telegram
	if set.Token == "" {
		return nil
	}
	s.bot, err = telegram.New(telegram.Config{
		Token: set.Token.Reveal(), APIURL: set.APIURL, Updates: set.Updates, WebhookURL: set.WebhookURL, WebhookSecret: set.WebhookSecret.Reveal(),
		Tenant: set.Tenant, Agent: set.Agent, Approvals: agent.ApprovalPolicy(set.Approvals), Unlinked: set.Unlinked,
		ApproverChat: set.ApproverChat, EditEvery: set.EditEvery, Store: s.store,
		Audit: s.callers.trail, Logger: s.logger.Named("telegram"), Metrics: s.telemetry.registry,
	})
	if err != nil {
		return fmt.Errorf("telegram: %w", err)
	}
	return nil
}
