package turnstone

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/gateway"
	probes "github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// The adapters satisfy the ports: asserted here, where both are known.
var (
	_ turns.TurnStore   = (*postgres.Store)(nil)
	_ turns.EventLog    = (*pgstream.Log)(nil)
	_ turns.EventLog    = (*stream.MemoryLog)(nil)
	_ turns.Blobs       = (*blob.Store)(nil)
	_ turns.Runs        = (*inbox.Runs)(nil)
	_ turns.Driver      = (*direct.Driver)(nil)
	_ turns.Models      = (*llm.Models)(nil)
	_ turns.Tools       = (*tool.Registry)(nil)
	_ turns.Middleware  = (*middleware.Set)(nil)
	_ turns.Registry    = (*catalog.Registry)(nil)
	_ turns.Schemas     = (*schema.Checker)(nil)
	_ turns.Knowledge   = (*retrieval.Library)(nil)
	_ jobs.Results      = (*inbox.Inbox)(nil)
	_ retrieval.Store   = (*postgres.KnowledgeStore)(nil)
	_ catalog.Store     = (*postgres.CatalogStore)(nil)
	_ gateway.Agents    = (*catalog.Registry)(nil)
	_ gateway.Documents = (*catalog.Registry)(nil)
)

// openTurns opens the use cases of turns, the driver of direct turns and the inbox through which every door submits.
func (s *Service) openTurns(context.Context, context.Context) (err error) {
	set := s.cfg.Settings
	s.runs = &inbox.Runs{Temporal: s.temporal, TaskQueue: set.Temporal.TaskQueue, Eager: s.startsEagerly(), SearchAttributes: s.watch.KnowsTurns}
	knowledge, err := retrieval.New(retrieval.Config{Store: s.store.KnowledgeStore, Embedders: s.parts.Models.Embedder, Logger: s.logger})
	if err != nil {
		return err
	}
	s.outcomes = &probes.Outcomes{}
	if s.turns, err = turns.New(s.turnsConfig(knowledge)); err != nil {
		return err
	}
	if set.Worker.Enabled { // a gateway alone calls no model
		if s.direct, err = direct.New(direct.Config{
			Turns: s.turns, Start: s.runs.TakeOver, Watch: s.telemetry.counts, Logger: s.logger, MaxTurns: set.Turn.DirectTurns,
			MaxTime: set.Turn.DirectMax,
		}); err != nil {
			return err
		}
	}
	if s.gate, err = s.newGate(); err != nil {
		return err
	}
	s.inbox = s.newInbox(knowledge)
	return s.watchInstallation()
}

// startsEagerly reports whether the worker of this process gets the first task of what it starts. It does not under Worker Versioning: an eager
// start takes the worker that asks, whichever version is current.
func (s *Service) startsEagerly() bool {
	set := s.cfg.Settings.Temporal
	return set.EagerStart && set.WorkerVersioning.Deployment == ""
}

func (s *Service) turnsConfig(knowledge *retrieval.Library) turns.Config {
	set := s.cfg.Settings
	c := turns.Config{
		Registry: s.parts.Registry, Models: watchedModels{s.parts.Models, s.outcomes}, Tools: s.parts.Tools, Middleware: s.parts.Middleware,
		Store: s.store, Log: s.log, Blobs: s.blobs, Runs: s.runs, Schemas: schema.New(), Knowledge: knowledge, Observer: s.telemetry.observer,
		Logger: s.logger, MaxMessageBytes: int(set.Turn.MaxMessageBytes), QueueLength: set.Turn.QueueLength, BatchInterval: set.Events.BatchInterval,
		MaxInlineBytes: int(set.Storage.MaxInlineBytes), OnUnavailable: agent.OnUnavailable(set.Turn.OnUnavailable),
		OutputBytes: int(set.Turn.OutputBytes), HistoryOutputBytes: int(set.Turn.HistoryOutputBytes), TurnEvents: set.Turn.ContinueAsNewEvents,
		ConversationEvents: set.Conversation.ContinueAsNewEvents, SearchAttributes: s.watch.KnowsTurns, StatusAttributes: s.watch.KnowsStatus,
		FailsWorkflow: set.Temporal.FailWorkflows, MessageSummaries: set.Temporal.MessageSummaries,
		ModelCalls: agent.ModelCalls(set.Temporal.ModelCalls), ProviderWait: set.Turn.ProviderWait, StartsHere: s.startsEagerly() && set.Worker.Enabled,
	}
	if set.Worker.Enabled { // a gateway alone counts none
		c.DirectFallback = s.telemetry.counts.DirectFallback
	}
	return c
}

func (s *Service) newInbox(knowledge *retrieval.Library) *inbox.Inbox {
	set := s.cfg.Settings
	c := turns.InboxConfig{
		Turns: s.turns, Admission: s.gate, Capacity: admission.NewCapacity(set.Turn.BeginWithin), Audit: s.callers.trail,
		DirectChannels: set.Gateway.DirectChannels,
	}
	if s.direct != nil {
		c.Driver = s.direct
	}
	return inbox.New(inbox.Config{
		Inbox: turns.NewInbox(c), Runs: s.runs, Store: s.store, Blobs: s.blobs, Health: s.newHealth().check, Library: knowledge,
		Catalog: s.parts.Registry, Models: s.parts.Models, Results: s.rows(), Definitions: s.library,
	})
}
