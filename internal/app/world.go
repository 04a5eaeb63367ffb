package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/kube"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/tool/mcp"
	"github.com/turnstone-run/turnstone/internal/tool/patch"
)

// newOrchestrator keeps workflow definitions at an orchestrator.
func newOrchestrator(c *Workflows) (tool.Workflows, error) {
	web, err := orchestratorHTTP(c)
	if err != nil {
		return nil, err
	}
	client, err := patch.NewOrchestrator(c.OrchestratorURL, web)
	if err != nil {
		return nil, fmt.Errorf("workflows.orchestrator_url: %w", err)
	}
	return client, nil
}

// orchestratorHTTP reaches the orchestrator and nothing else. It may be on a private address: the operator named it.
func orchestratorHTTP(c *Workflows) (tool.HTTP, error) {
	at, err := url.Parse(c.OrchestratorURL)
	if err != nil {
		return nil, fmt.Errorf("workflows.orchestrator_url: %w", err)
	}
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	host := net.JoinHostPort(at.Hostname(), port)
	web, err := egress.New(egress.Config{AllowHosts: []string{at.Host}, AllowPrivate: []string{host}})
	if err != nil {
		return nil, fmt.Errorf("workflows.orchestrator_url: %w", err)
	}
	return bearer{web, c.OrchestratorToken.Reveal()}, nil
}

// bearer sends a token of the configuration along.
type bearer struct {
	tool.HTTP

	token string
}

// Do implements [tool.HTTP].
func (b bearer) Do(req *http.Request) (*http.Response, error) {
	if b.token == "" {
		return b.HTTP.Do(req)
	}
	const header = "Authorization"
	req = req.Clone(egress.WithCredentials(req.Context(), egress.Credentials{Headers: []string{header}}))
	req.Header.Set(header, "Bearer "+b.token)
	return b.HTTP.Do(req)
}

// delegation is what delegate_to_agent runs containers on. Without a cluster it writes their manifests.
func delegation(c *Kubernetes, logger *zap.Logger) (delegate.Config, error) {
	cfg := kube.Config{
		Namespace: c.Namespace, Images: c.Images, Interpreter: c.Interpreter, CPU: c.CPU, Memory: c.Memory, Deadline: c.Deadline,
		TTL: c.TTL, RuntimeClass: c.RuntimeClass, EphemeralStorage: c.EphemeralStorage, PullSecrets: c.PullSecrets, Logger: logger,
	}
	if !c.Enabled {
		manifests, err := kube.NewRenderer(cfg)
		if err != nil {
			return delegate.Config{}, fmt.Errorf("tools.kubernetes: %w", err)
		}
		return delegate.Config{Manifests: manifests}, nil
	}
	client, err := kube.Connect(c.Kubeconfig, c.Context)
	if err != nil {
		return delegate.Config{}, fmt.Errorf("tools.kubernetes: %w", err)
	}
	cfg.Client = client
	cluster, err := kube.New(cfg)
	if err != nil {
		return delegate.Config{}, fmt.Errorf("tools.kubernetes: %w", err)
	}
	return delegate.Config{Containers: cluster}, nil
}

// maxPatience is longer than any context of a request by [Parts.Patient].
const maxPatience = 10 * time.Minute

// egressClient returns a client with the bounds of limits, to the hosts of the configuration.
func egressClient(c *Config, limits egress.Config) (*egress.Client, error) {
	limits.AllowHosts, limits.AllowPrivate = c.Egress.AllowHosts, c.Egress.AllowPrivate
	web, err := egress.New(limits)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return web, nil
}

// streamBytes bounds one answer of an MCP server, which may be a stream that lasts as long as its session, and one of a model.
const streamBytes = 1 << 30

const (
	// maxSilence is the longest timeout_sec of a model profile: the model's own client gives up before.
	maxSilence = time.Hour
	// modelConns bounds the calls of models that are under way at one host: more than the turns that a process can have at work.
	modelConns = 4096
)

// profileHTTP sends the requests of model profiles that are documents, by the egress rules. Redirects are not followed.
func profileHTTP(c *Config) (*http.Client, error) {
	web, err := egressClient(c, egress.Config{
		MaxBytes: streamBytes, Timeout: -1, HeaderTimeout: maxSilence, MaxRedirects: -1, MaxConnsPerHost: modelConns,
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: outbound{web}}, nil
}

// outbound is the egress client as a transport.
type outbound struct{ web *egress.Client }

// RoundTrip implements [http.RoundTripper].
func (o outbound) RoundTrip(req *http.Request) (*http.Response, error) { return o.web.Do(req) }

// mcpConfig is what MCP servers are started and asked with.
func mcpConfig(c *Config, w *World) (mcp.Config, error) {
	web, err := egressClient(c, egress.Config{MaxBytes: streamBytes, Timeout: -1, HeaderTimeout: c.Egress.Timeout})
	if err != nil {
		return mcp.Config{}, err
	}
	cfg := mcp.Config{HTTP: web, Version: Version()}
	for _, entry := range w.Env {
		if name, _, _ := strings.Cut(entry, "="); name == "PATH" || name == "HOME" {
			cfg.Environ = append(cfg.Environ, entry)
		}
	}
	for _, s := range c.Tools.MCP.Servers {
		server := mcp.Server{Name: s.Name, Command: s.Command, Args: s.Args, Dir: s.Dir, Env: make(map[string]string, len(s.Env))}
		for _, entry := range s.Env {
			name, value, _ := strings.Cut(entry, "=")
			server.Env[name] = value
		}
		cfg.Servers = append(cfg.Servers, server)
	}
	return cfg, nil
}

// sampler asks the default model for MCP servers that a binding allows it.
type sampler struct {
	models  *llm.Models
	profile agent.PlanModel
	logger  *zap.Logger
}

// samplingProfile returns the profile of the default model.
func samplingProfile(m *LLM) agent.PlanModel {
	return agent.PlanModel{
		Profile: defaultProfile, Provider: m.Provider, Model: m.Model, Temperature: &m.Temperature, MaxTokens: m.MaxTokens, TimeoutSec: m.TimeoutSec,
	}
}

func (s sampler) sample(ctx context.Context, tenant string, req agent.ModelRequest) (agent.ModelReply, error) {
	model, err := s.models.Model(ctx, s.profile)
	if err != nil {
		return agent.ModelReply{}, err
	}
	req.Profile, req.Model, req.Temperature = s.profile.Profile, s.profile.Model, s.profile.Temperature
	if limit := s.profile.MaxTokens; limit > 0 {
		req.MaxTokens = min(req.MaxTokens, limit)
	}
	reply, err := model.Generate(ctx, req, func(agent.Delta) error { return context.Cause(ctx) })
	if err == nil && s.logger != nil { // no turn pays for it
		s.logger.Info("an MCP server asked the model", zap.String("tenant", tenant), zap.Int64("input_tokens", reply.Usage.InputTokens),
			zap.Int64("output_tokens", reply.Usage.OutputTokens))
	}
	return reply, err
}
