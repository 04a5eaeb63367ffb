package turnstone

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// ToolkitFactory makes a toolkit of the embedding program. It declares what it needs, and is given no more.
type ToolkitFactory = tool.Factory

// Provider is a model provider of the embedding program: its name in llm.provider and in model profiles, and how to open its models. The
// names of built-in providers are refused.
type Provider = llm.Provider

// ProviderConfig is the input with which a [Provider] opens a model. Its HTTPClient turns a failed request into an [agent.Error] without
// the key, bounds silence and size, and keeps to the egress rules where a document gave the address: send every request with it.
type ProviderConfig = llm.Config

// ToolDependencies are the services that a toolkit is given.
type ToolDependencies = tool.Dependencies

// Need is a dependency that a factory declares.
type Need = tool.Need

// The needs of toolkits. [ConnTo] is another one.
const (
	NeedHTTP     = tool.NeedHTTP     // an HTTP client that keeps to the egress rules
	NeedAuth     = tool.NeedAuth     // adds the credentials of auth profiles to requests
	NeedBlobs    = tool.NeedBlobs    // the content-addressed store
	NeedDatasets = tool.NeedDatasets // rows by reference
	NeedResults  = tool.NeedResults  // the cache of results that all processes share
	NeedCatalog  = tool.NeedCatalog  // the list of agents

	NeedWorkflows  = tool.NeedWorkflows  // the definitions of workflows
	NeedComposites = tool.NeedComposites // tools that were promoted from repeated pipelines
	NeedReferences = tool.NeedReferences // the sources of a conversation
	NeedRanking    = tool.NeedRanking    // full-text ranking
)

// ConnTo returns the need of the gRPC client that tools.grpc_clients has under a name.
func ConnTo(name string) Need { return tool.ConnTo(name) }

// followCatalog takes over the catalog of another installation, if one is configured. Only workers do, because they share what they apply.
func (s *Service) followCatalog(background context.Context) error {
	set := &s.cfg.Settings.Catalog
	if set.Follow.URL == "" || !s.cfg.Settings.Worker.Enabled {
		return nil
	}
	remote, err := client.New(client.Config{Server: set.Follow.URL, Key: set.Follow.Key.Reveal()})
	if err != nil {
		return fmt.Errorf("catalog.follow: %w", err)
	}
	follower := catalog.NewFollower(catalog.FollowerConfig{
		Catalog: remote, URL: set.Follow.URL, Apply: s.parts.Registry.ApplyFollowed, Poll: set.Poll, Logger: s.logger.Named("catalog"),
	})
	s.parts.Registry.WatchSource(follower.Status)
	s.tasks.Go(func() { follower.Run(background) })
	return nil
}

// openCatalog builds the models, tools and middleware of agents, loads the catalog and keeps it up to date.
func (s *Service) openCatalog(ctx, background context.Context) error {
	set := s.cfg.Settings
	factories := slices.Clone(s.cfg.Factories)
	for _, kit := range s.cfg.Toolkits {
		factories = append(factories, tool.Ready(kit))
	}
	var err error
	s.parts, err = app.Build(set, app.World{
		Store: s.store, Blobs: s.blobs, Datasets: s.rows(), Results: results.Cache{Memory: s.store.ResultStore}, Toolkits: factories,
		Workflows: s.library, Composites: s.store.CompositeStore, References: s.store.SessionStore, Ranking: ranking{s.store.KnowledgeStore},
		Providers: s.cfg.Providers, Middleware: s.cfg.Middleware, Env: s.cfg.Env, Metrics: s.telemetry.registry, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	registry := s.parts.Registry
	if err := registry.Start(ctx); err != nil {
		return fmt.Errorf("load catalog: %w", err)
	}
	s.tasks.Go(func() { registry.Run(background) })
	if err := s.followCatalog(background); err != nil {
		return err
	}
	return s.watchFolder(ctx, background)
}

// watchFolder applies the catalog's folder, if one is configured, before anything is served, and then what changes in it. A fault in it is no
// reason not to serve the documents of before.
func (s *Service) watchFolder(ctx, background context.Context) error {
	set, registry := &s.cfg.Settings.Catalog, s.parts.Registry
	if set.Folder == "" {
		return nil
	}
	folder, err := catalog.NewFolder(catalog.FolderConfig{Dir: set.Folder, Logger: s.logger, Apply: registry.ApplyFolder})
	if err != nil {
		return err
	}
	registry.WatchSource(folder.Status)
	if err := folder.Load(ctx); err != nil && agent.CodeOf(err) != agent.CodeInvalid && agent.CodeOf(err) != agent.CodeConflict {
		return err
	}
	s.tasks.Go(func() { folder.Run(background) })
	s.tasks.Go(func() {
		registry.Follow(background, func() {
			if !folder.Status().OK { // a document that it lacked may have come through the API
				_ = folder.Load(background) // its status has the error
			}
		})
	})
	return nil
}
