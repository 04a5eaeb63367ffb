package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	shipped "github.com/turnstone-run/turnstone/catalog"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/routing"
	"github.com/turnstone-run/turnstone/internal/secret"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/authorize"
)

// defaultProfile is the name of the model profile under llm.
const defaultProfile = "default"

// Parts are what agents are made of.
type Parts struct {
	Registry   *catalog.Registry
	Models     *llm.Models
	Tools      *tool.Registry
	Middleware *middleware.Set
	HTTP       *egress.Client // the one way out
	Patient    tool.HTTP      // the same, for requests whose contexts bound their time
	Auth       tool.Auth

	secrets *secret.Resolver
	closers []func() error
}

// Close closes what Build opened.
func (p *Parts) Close() error {
	var faults []error
	for _, c := range slices.Backward(p.closers) {
		faults = append(faults, c())
	}
	p.closers = nil
	return errors.Join(faults...)
}

// Blobs is the blob store as toolkits and plans need it.
type Blobs interface {
	tool.Blobs
	catalog.Plans
}

// World holds the services that the parts need.
type World struct {
	Store      catalog.Store
	Blobs      Blobs
	Datasets   tool.Datasets
	Results    tool.Results
	Workflows  tool.Workflows // unless an orchestrator keeps them
	Composites tool.Composites
	References tool.References
	Ranking    tool.Ranking
	Toolkits   []tool.Factory     // besides the built-in ones
	Providers  []llm.Provider     // likewise
	Middleware []middleware.Named // likewise
	Env        []string           // where env: references of auth profiles lead
	Metrics    prometheus.Registerer
	Logger     *zap.Logger
}

// Build makes the parts of the settings, the built-in lists and what the user adds. Its registry has only the lower layer of the catalog;
// [catalog.Registry.Start] loads the rest.
func Build(c *Config, w World) (_ *Parts, err error) {
	parts := &Parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, parts.Close())
		}
	}()
	if parts.secrets, err = secret.New(secret.Config{Env: w.Env, AllowEnv: c.Catalog.SecretEnv, Folders: c.Catalog.SecretFolders}); err != nil {
		return nil, fmt.Errorf("secrets of the catalog: %w", err)
	}
	kinds := providers(w.Providers)
	configured, err := parts.models(c, kinds)
	if err != nil {
		return nil, err
	}
	if err := parts.tools(c, &w, sampler{models: parts.Models, profile: samplingProfile(&c.LLM), logger: w.Logger}); err != nil {
		return nil, err
	}
	all, added := middlewares(c, w.Middleware)
	if parts.Middleware, err = middleware.NewSet(all...); err != nil {
		return nil, err
	}
	return parts, parts.catalog(c, &w, &catalog.Parts{
		Tools: kits{parts.Tools}, Middleware: chains{parts.Middleware, added}, Secrets: parts.secrets, Limits: c.Turn.Limits(), Models: configured,
		Providers: names(kinds), Claims: parts.Models, Addresses: parts.HTTP,
	})
}

// tools makes the toolkits.
func (p *Parts) tools(c *Config, w *World, s sampler) (err error) {
	if p.HTTP, err = egressClient(c, egress.Config{MaxBytes: int64(c.Egress.MaxBytes), Timeout: c.Egress.Timeout}); err != nil {
		return err
	}
	if p.Patient, err = egressClient(c, egress.Config{MaxBytes: int64(c.Egress.MaxBytes), Timeout: -1, HeaderTimeout: maxPatience}); err != nil {
		return err
	}
	if p.Auth, err = authorize.New(authorize.Config{Secrets: p.secrets, HTTP: p.HTTP}); err != nil {
		return err
	}
	pool, err := newGRPCPool(c.Tools.GRPCClients)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, pool.Close)
	available := tool.Dependencies{
		HTTP: p.HTTP, Auth: p.Auth, Blobs: w.Blobs, Datasets: w.Datasets, Results: w.Results, Catalog: (*builtCatalog)(p), Conn: pool.Conn, Logger: w.Logger,
		Workflows: w.Workflows, Composites: w.Composites, References: w.References, Ranking: w.Ranking,
	}
	if c.Workflows.OrchestratorURL != "" {
		if available.Workflows, err = newOrchestrator(&c.Workflows); err != nil {
			return err
		}
	}
	builtin, err := toolkits(c, w, s.sample)
	if err != nil {
		return err
	}
	if p.Tools, err = tool.Build(available, slices.Concat(builtin, w.Toolkits)...); err != nil {
		return err
	}
	for _, kit := range p.Tools.Toolkits() {
		if k, ok := kit.(io.Closer); ok {
			p.closers = append(p.closers, k.Close)
		}
	}
	return nil
}

// builtCatalog is the catalog for toolkits. A toolkit may need the registry, and the registry needs the toolkits: the registry is made second, and
// the tools are called once it exists.
type builtCatalog Parts

// ListAgents implements [tool.Catalog].
func (p *builtCatalog) ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	return p.Registry.ListAgents(ctx, q)
}

// catalog makes the registry.
func (p *Parts) catalog(c *Config, w *World, parts *catalog.Parts) error {
	var shared catalog.SharedPlans
	if to := c.Catalog.RedisURL.Reveal(); to != "" {
		redis, err := catalog.OpenRedisPlans(to)
		if err != nil {
			return fmt.Errorf("catalog.redis_url: %w", err)
		}
		p.closers = append(p.closers, redis.Close)
		shared = redis
	}
	rules, err := routing.New()
	if err != nil {
		return err
	}
	var files []agent.ManifestFile
	if c.Catalog.Shipped {
		if files, err = shipped.Files(); err != nil {
			return err
		}
	}
	p.Registry, err = catalog.New(catalog.Config{
		Store: w.Store, Plans: w.Blobs, Routes: routes{rules}, Shipped: files,
		Cache:  catalog.PlanCacheConfig{Shared: shared, Size: c.Catalog.PlanCache, TTL: c.Catalog.PlanTTL},
		Folder: c.Catalog.Folder != "", Follow: c.Catalog.Follow.URL != "",
		Metrics: w.Metrics, Logger: w.Logger, Parts: parts,
	})
	return err
}

// routes is the routing engine as the catalog needs it.
type routes struct{ *routing.Compiler }

// Router implements [catalog.Routes].
func (r routes) Router(own, shared []*agent.RouteTable) (catalog.Router, error) {
	return r.Engine(own, shared)
}

// kits are the toolkits as the catalog needs them.
type kits struct{ tools *tool.Registry }

func (k kits) Kits() []string {
	var names []string
	for _, kit := range k.tools.Toolkits() {
		names = append(names, kit.Name())
	}
	return names
}

func (k kits) Specs(name string) ([]agent.ToolSpec, error) {
	kit, ok := k.tools.Toolkit(name)
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "", "this server has no toolkit %q", name)
	}
	var specs []agent.ToolSpec
	for _, t := range kit.Tools() {
		specs = append(specs, t.Spec())
	}
	return specs, nil
}

// OnRequest implements [catalog.Tools]: a toolkit that says so of itself.
func (k kits) OnRequest(name string) bool {
	kit, _ := k.tools.Toolkit(name)
	r, ok := kit.(interface{ OnRequest() bool })
	return ok && r.OnRequest()
}

// Dynamic implements [catalog.Tools].
func (k kits) Dynamic(name string) bool { return k.tools.Dynamic(name) }

func (k kits) Single(name string) bool { return k.tools.Single(name) }

func (k kits) Properties(name string) json.RawMessage {
	kit, _ := k.tools.Toolkit(name)
	if c, ok := kit.(agent.Configurable); ok {
		return c.Properties()
	}
	return nil
}

// chains is the middleware as the catalog needs it.
type chains struct {
	*middleware.Set

	added []string
}

func (c chains) Added() []string { return c.added }

// Grants implements [catalog.Middleware].
func (c chains) Grants(m agent.PlanMiddleware) []agent.ToolGrant {
	made, err := c.Chain(&agent.Plan{Middleware: []agent.PlanMiddleware{m}})
	if err != nil {
		return nil // Check says why
	}
	if g, ok := made[0].(agent.Granter); ok {
		return g.Grants()
	}
	return nil
}
