package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// ToolkitName is the name of the toolkit in the catalog.
const ToolkitName = "mcp"

// maxServers bounds the configured stdio servers.
const maxServers = 64

var serverName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Config is what the toolkit needs.
type Config struct {
	Servers []Server
	// Environ holds the variables that every stdio server gets, as NAME=value: PATH and HOME, and nothing secret.
	Environ []string
	// HTTP sends the requests to servers with a URL. It must not bound the time of a whole response, because an event stream lasts as long as
	// its session. nil: URLs are refused.
	HTTP   tool.HTTP
	Auth   tool.Auth  // nil: requests carry no credentials
	Blobs  tool.Blobs // takes images, audio and files; nil: they are left out of results
	Sample Sampler    // nil: sampling is refused, whatever a binding says
	Logger *zap.Logger
	// Version is the version of this client that servers see.
	Version string
}

func (c *Config) check() error {
	if len(c.Servers) > maxServers {
		return agent.Invalid("servers", "are %d, at most %d", len(c.Servers), maxServers)
	}
	seen := map[string]bool{}
	for i := range c.Servers {
		s, field := &c.Servers[i], func(name string) string { return indexedField("servers", i) + "." + name }
		switch {
		case !serverName.MatchString(s.Name):
			return agent.Invalid(field("name"), "%.80q: want 1 to 64 of a-z A-Z 0-9 _ . -", s.Name)
		case seen[s.Name]:
			return agent.Invalid(field("name"), "%q is given twice", s.Name)
		case s.Command == "":
			return agent.Invalid(field("command"), "is required")
		case hasNUL(s):
			return agent.Invalid(indexedField("servers", i), "has a NUL character")
		}
		for name := range s.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return agent.Invalid(field("env"), "%.80q is no name of a variable", name)
			}
		}
		seen[s.Name] = true
	}
	return nil
}

func hasNUL(s *Server) bool {
	texts := append([]string{s.Command, s.Dir}, s.Args...)
	for _, v := range s.Env {
		texts = append(texts, v)
	}
	return slices.ContainsFunc(texts, func(t string) bool { return strings.ContainsRune(t, 0) })
}

// Factory returns the factory of the toolkit, which is an [io.Closer]. The runtime's auth profiles and blob store replace those in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedAuth, tool.NeedBlobs},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			c := cfg
			c.Auth, c.Blobs, c.Logger = d.Auth, d.Blobs, d.Logger
			return New(c)
		},
	}
}

// Toolkit is the toolkit "mcp". It is safe for concurrent use; Close ends its sessions and servers.
type Toolkit struct {
	cfg     Config
	servers map[string]*Server
	pool    *pool
}

var (
	_ agent.DynamicToolkit = (*Toolkit)(nil)
	_ agent.Configurable   = (*Toolkit)(nil)
	_ io.Closer            = (*Toolkit)(nil)
)

// New returns the toolkit, which starts servers on their first use. Errors are [agent.CodeInvalid] and name the field, such as
// servers[0].command.
func New(cfg Config) (*Toolkit, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Servers = slices.Clone(cfg.Servers)
	k := &Toolkit{cfg: cfg, servers: make(map[string]*Server, len(cfg.Servers)), pool: newPool(defaultPoolTimes(), cfg.Logger)}
	for i := range cfg.Servers {
		k.servers[cfg.Servers[i].Name] = &cfg.Servers[i]
	}
	return k, nil
}

// Name returns "mcp".
func (*Toolkit) Name() string { return ToolkitName }

// Tools returns nil: every tool comes from a binding.
func (*Toolkit) Tools() []agent.Tool { return nil }

// OnRequest returns true: agents with "every toolkit" do not get this one, which has no tools without parameters.
func (*Toolkit) OnRequest() bool { return true }

// Properties returns the JSON Schema of a binding's parameters.
func (*Toolkit) Properties() json.RawMessage { return bytes.Clone(properties) }

// Close ends all sessions and stdio servers.
func (k *Toolkit) Close() error { return k.pool.close() }

// List returns the tools of the binding's server.
func (k *Toolkit) List(ctx context.Context, scope agent.ToolScope) ([]agent.ListedTool, error) {
	b, err := parseBinding(scope.Parameters)
	if err != nil {
		return nil, err
	}
	var tools []serverTool
	for range attempts {
		s, release, failure := k.session(ctx, b, &scope)
		if failure != nil {
			return nil, failure
		}
		tools, err = s.list(ctx)
		release()
		if err == nil {
			return listTools(b, tools)
		}
		if s.isAlive() || s.refusal.Load() != nil {
			break
		}
	}
	return nil, err
}

// Find returns the tool of a handle. It opens no session. The error is [agent.CodeNotFound] if the server is known to have dropped the
// tool.
func (k *Toolkit) Find(_ context.Context, scope agent.ToolScope, name, handle string) (agent.Tool, error) {
	b, err := parseBinding(scope.Parameters)
	if err != nil {
		return nil, err
	}
	h, err := parseHandle(handle)
	if err != nil {
		return nil, err
	}
	// The binding decides, because the handles of a plan that was changed by hand may be older.
	h.ReadOnly, h.Idempotent = h.ReadOnly && b.TrustAnnotations, h.Idempotent && b.TrustAnnotations
	key, err := b.key(&scope)
	if err != nil {
		return nil, err
	}
	remote := serverTool{name: h.Name, description: "A tool of the MCP server " + b.label() + ".", schema: json.RawMessage(`{"type":"object"}`)}
	if s := k.pool.peek(key); s != nil {
		if tools, ok := s.cachedTools(); ok {
			i := slices.IndexFunc(tools, func(t serverTool) bool { return t.name == h.Name })
			if i < 0 {
				return nil, agent.Errorf(agent.CodeNotFound, "find MCP tool", "the server %q has no tool %q any more", b.label(), name)
			}
			remote = tools[i]
		}
	}
	t := &remoteTool{kit: k, binding: b, scope: scope, handle: h, spec: h.spec(name, &remote)}
	if h.ReadOnly {
		return readOnlyTool{t}, nil
	}
	return t, nil
}

// session returns the binding's session, and opens it if there is none.
func (k *Toolkit) session(ctx context.Context, b *binding, scope *agent.ToolScope) (*session, func(), error) {
	dial, err := k.dialler(b, scope)
	if err != nil {
		return nil, nil, err
	}
	key, err := b.key(scope)
	if err != nil {
		return nil, nil, err
	}
	sample := k.sampler(b, scope.Tenant)
	return k.pool.acquire(ctx, key, func(ctx context.Context) (*session, error) {
		return open(ctx, b.label(), dial, sample, &k.cfg)
	})
}

// dialler returns a function that makes a link to the binding's server.
func (k *Toolkit) dialler(b *binding, scope *agent.ToolScope) (func() *link, error) {
	if b.URL != "" {
		if k.cfg.HTTP == nil {
			return nil, agent.FieldErrorf(agent.CodeDenied, "url", "outbound HTTP is not configured")
		}
		return func() *link {
			c := newCarrier(k.cfg.HTTP, k.authFor(b), scope.Auth)
			return &link{transport: c.transport(b.URL), secrets: c.secrets, stop: c.cancel, mayMissNotices: c.hasNoStream.Load, notices: c.notices, tasks: c.tasks}
		}, nil
	}
	server, ok := k.servers[b.Server]
	if !ok {
		return nil, agent.FieldErrorf(agent.CodeNotFound, "server", "no MCP server %.80q is configured", b.Server)
	}
	return func() *link {
		t := &stdioTransport{server: server, environ: k.cfg.Environ, logger: k.cfg.Logger, secrets: newSecretMasker(), notices: newNotices(), tasks: &taskTools{}}
		for _, v := range server.Env {
			t.secrets.add(v)
		}
		return &link{transport: t, secrets: t.secrets, stop: t.stop, mayMissNotices: func() bool { return false }, notices: t.notices, tasks: t.tasks}
	}, nil
}

// authFor returns the authorisation of one session's requests. It can discover who issues tokens for the server.
func (k *Toolkit) authFor(b *binding) tool.Auth {
	authoriser, ok := k.cfg.Auth.(tool.ServerAuthoriser)
	endpoint, err := url.Parse(b.URL)
	if !ok || err != nil {
		return k.cfg.Auth
	}
	return authoriser.ForServer(endpoint)
}

func indexedField(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
