package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/secret"
)

// Bounds of the lists that only YAML can give.
const (
	maxModels       = 100
	maxMCPServers   = 64
	maxIssuers      = 32
	maxCertificates = 1000
	maxTenantLimits = 10_000
	// minOperatorKey makes the key too long to be guessed.
	minOperatorKey = 32
)

// validate checks every setting by the rules of its tags, and then the settings that depend on each other. It adds faults and changes
// nothing.
func (l *loader) validate() {
	eachValue(reflect.ValueOf(l.cfg).Elem(), "", l.checkField)
	l.doors()
	l.temporal()
	l.stores()
	l.turns()
	l.models()
	l.catalog()
	l.access()
	l.limits()
	l.telegram()
	l.tools()
	l.workflows()
	l.telemetry()
	l.retention()
	l.egress()
	each("log.pii", l.cfg.Log.PII, func(path, kind string) {
		l.oneOf(path, kind, "email", "credit_card", "ip", "mac_address", "url")
	})
}

// each calls check with the path of each entry of a list.
func each(path string, list []string, check func(path, entry string)) {
	for i, entry := range list {
		check(fmt.Sprintf("%s[%d]", path, i), entry)
	}
}

func (l *loader) doors() {
	cfg := l.cfg
	if cfg.Gateway.Enabled && cfg.HTTP.Addr == cfg.GRPC.Addr && !strings.HasSuffix(cfg.HTTP.Addr, ":0") {
		l.fault("grpc.addr", "is the address of HTTP as well")
	}
	if !cfg.Gateway.Enabled && !cfg.Worker.Enabled {
		l.fault("worker.enabled", "is false, and gateway.enabled as well: this process would do nothing")
	}
	each("http.allowed_hosts", cfg.HTTP.AllowedHosts, func(path, host string) {
		if host == "" || strings.ContainsAny(host, "/@ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			l.fault(path, "want a host name without scheme and port, or *")
		}
	})
	each("http.allowed_origins", cfg.HTTP.AllowedOrigins, func(path, origin string) {
		if origin != "*" && !isOrigin(origin) {
			l.fault(path, "want scheme://host or scheme://host:port, or *")
		}
	})
	each("http.codec_origins", cfg.HTTP.CodecOrigins, func(path, origin string) {
		if !isOrigin(origin) {
			l.fault(path, "want scheme://host or scheme://host:port")
		}
	})
	each("gateway.direct_channels", cfg.Gateway.DirectChannels, func(path, channel string) {
		if !agent.ValidName(channel) {
			l.fault(path, "want the name of a channel: http, grpc, ws, openai, chat, telegram, …")
		}
	})
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text
}

func (l *loader) temporal() {
	t := l.cfg.Temporal
	if t.Address != "" {
		// gRPC resolver names such as dns:///host:port are addresses as well.
		l.address("temporal.address", t.Address[strings.LastIndex(t.Address, "/")+1:], 1)
	}
	if keys := t.EncryptionKeys.Reveal(); keys != "" {
		if _, err := codec.ParseKeyList(keys); err != nil {
			l.fault("temporal.encryption_keys", "%s", err)
		}
	}
	if v := t.WorkerVersioning; (v.Deployment == "") != (v.BuildID == "") {
		l.fault("temporal.worker_versioning", "want deployment and build_id together, or neither")
	}
}

func (l *loader) stores() {
	cfg := l.cfg
	if dsn := cfg.Database.URL.Reveal(); dsn != "" {
		u, err := url.Parse(dsn)
		isURL := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
		isDSN := !strings.Contains(dsn, "://") && strings.Contains(dsn, "=")
		if !isURL && !isDSN {
			l.fault("database.url", "want postgres://user:password@host:port/database")
		}
	}
	if bucket := cfg.Storage.BlobURL.Reveal(); bucket != "" {
		if u, err := url.Parse(bucket); err != nil || u.Scheme == "" {
			l.fault("storage.blob_url", "want a bucket URL such as file:///path or s3://bucket")
		}
	}
	if cfg.Events.Log == LogMemory && (!cfg.Gateway.Enabled || !cfg.Worker.Enabled) {
		l.fault("events.log", "memory serves one process only, which has to be gateway and worker: enable both or use postgres")
	}
	if relay := cfg.Events.Relay.Address; relay != "" {
		l.address("events.relay.address", relay, 0)
	}
	if name := cfg.Events.Relay.Advertise; strings.Contains(name, ":") && net.ParseIP(name) == nil {
		l.address("events.relay.advertise", name, 1)
	}
}

func (l *loader) turns() {
	t := l.cfg.Turn
	if t.WallTime%time.Second != 0 {
		l.fault("turn.wall_time", "want whole seconds")
	}
	if body := l.cfg.HTTP.MaxBodyBytes; body > 0 && t.MaxMessageBytes > body {
		l.fault("turn.max_message_bytes", "is above http.max_body_bytes (%s): such a message could not arrive", body)
	}
}

func modelPath(i int) string { return fmt.Sprintf("models[%d]", i) }

// providerName is also the pattern of ModelProfile.provider (docs/schemas/model_profile.json).
var providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

var profileName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (l *loader) models() {
	l.model("llm", &l.cfg.LLM)
	if n := len(l.cfg.Models); n > maxModels {
		l.fault("models", "has %d profiles, at most %d are allowed", n, maxModels)
	}
	seen := map[string]bool{"default": true}
	for i := range l.cfg.Models {
		l.profileName(modelPath(i)+".name", l.cfg.Models[i].Name, seen)
		l.model(modelPath(i), &l.cfg.Models[i].LLM)
	}
}

func (l *loader) profileName(path, name string, seen map[string]bool) {
	if !profileName.MatchString(name) {
		l.fault(path, "want 1 to 64 letters, digits, dots, underscores or dashes")
		return
	}
	l.unique(path, name, seen, "%q is taken")
}

func (l *loader) model(path string, m *LLM) {
	if !providerName.MatchString(m.Provider) { // whether there is such a provider, CheckProviders checks
		l.fault(path+".provider", "want a name such as openai: lower case letters, digits and dashes, got %q", m.Provider)
	} else {
		l.checkText(path+".model", "required", m.Model)
		// A service of one's own may need no key; the two public ones do.
		if m.APIKey == "" && m.BaseURL == "" && (m.Provider == ProviderOpenAI || m.Provider == ProviderAnthropic) {
			l.fault(path+".api_key", "is required for %s: set it, %s or %s", m.Provider, openAIKey, anthropicKey)
		}
	}
	if m.BaseURL != "" {
		u, err := url.Parse(m.BaseURL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			l.fault(path+".base_url", "want an http or https URL")
		case u.User != nil:
			l.fault(path+".base_url", "must not hold credentials: api_key is for these")
		}
	}
}

// catalog has the packages that read the entries check them, so that there is one grammar.
func (l *loader) catalog() {
	c := l.cfg.Catalog
	each("catalog.secret_env", c.SecretEnv, func(path, entry string) {
		_, err := secret.New(secret.Config{AllowEnv: []string{entry}})
		l.foreignFault(path, err)
	})
	each("catalog.secret_folders", c.SecretFolders, func(path, entry string) {
		_, err := secret.New(secret.Config{Folders: []string{entry}})
		l.foreignFault(path, err)
	})
}

func (l *loader) egress() {
	each("egress.allow_hosts", l.cfg.Egress.AllowHosts, func(path, rule string) {
		_, err := egress.New(egress.Config{AllowHosts: []string{rule}})
		l.foreignFault(path, err)
	})
	each("egress.allow_private", l.cfg.Egress.AllowPrivate, func(path, rule string) {
		_, err := egress.New(egress.Config{AllowPrivate: []string{rule}})
		l.foreignFault(path, err)
	})
}

// foreignFault adds the error of another package, if there is one, without the field that it names.
func (l *loader) foreignFault(path string, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		message = e.Err.Error()
	}
	l.fault(path, "%s", message)
}

func (l *loader) access() {
	cfg := l.cfg
	a := &cfg.Auth
	if key := a.OperatorKey.Reveal(); key != "" && len(key) < minOperatorKey {
		l.fault("auth.operator_key", "has %d characters, want at least %d", len(key), minOperatorKey)
	}
	l.maxEntries("auth.issuers", len(a.Issuers), maxIssuers)
	for i := range a.Issuers {
		l.issuer(fmt.Sprintf("auth.issuers[%d]", i), &a.Issuers[i])
	}
	l.maxEntries("auth.certificates", len(a.Certificates), maxCertificates)
	if len(a.Certificates) > 0 && cfg.GRPC.ClientCA == "" {
		l.fault("auth.certificates", "need grpc.client_ca, which signs them")
	}
	for i := range a.Certificates {
		c, path := &a.Certificates[i], fmt.Sprintf("auth.certificates[%d]", i)
		l.tenant(path+".tenant", c.Tenant)
		l.scopes(path+".scopes", c.Scopes)
	}
	l.keyPair("http", cfg.HTTP.TLSCert, cfg.HTTP.TLSKey)
	l.keyPair("grpc", cfg.GRPC.TLSCert, cfg.GRPC.TLSKey)
	if cfg.GRPC.ClientCA != "" {
		l.checkText("grpc.tls_cert", "required", cfg.GRPC.TLSCert)
	}
}

func (l *loader) issuer(path string, i *Issuer) {
	if len(i.Audiences) == 0 {
		l.fault(path+".audiences", "is required: whom a token must be meant for")
	}
	algorithms := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	each(path+".algorithms", i.Algorithms, func(path, name string) {
		if !slices.Contains(algorithms, name) {
			l.fault(path, "want one of %s, got %q", strings.Join(algorithms, ", "), name)
		}
	})
	switch {
	case (i.Tenant == "") == (i.TenantClaim == ""):
		l.fault(path+".tenant", "want either tenant or tenant_claim")
	case i.Tenant != "":
		l.tenant(path+".tenant", i.Tenant)
	}
	l.scopes(path+".scopes", i.Scopes)
}

func (l *loader) maxEntries(path string, n, limit int) {
	if n > limit {
		l.fault(path, "are %d, at most %d", n, limit)
	}
}

// keyPair requires both files of a server's TLS, or neither.
func (l *loader) keyPair(door, cert, key string) {
	if (cert == "") != (key == "") {
		l.fault(door+".tls_cert", "want %s.tls_cert and %s.tls_key together, or neither", door, door)
	}
}

func (l *loader) tenant(path, name string) {
	if name != agent.AnyTenant && !agent.ValidName(name) {
		l.fault(path, "want 1 to 128 of A-Z a-z 0-9 . _ -, or *")
	}
}

func (l *loader) scopes(path string, scopes []string) {
	each(path, scopes, func(path, scope string) {
		if !access.ValidScope(scope) {
			l.fault(path, "%q allows nothing that there is", scope)
		}
	})
}

func (l *loader) limits() {
	tenants := l.cfg.Limits.Tenants
	l.maxEntries("limits.tenants", len(tenants), maxTenantLimits)
	seen := map[string]bool{}
	for i := range tenants {
		l.unique(fmt.Sprintf("limits.tenants[%d].name", i), tenants[i].Name, seen, "%q is there twice")
	}
}

var webhookSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)

// telegram checks the settings of a bot, if there is one.
func (l *loader) telegram() {
	t := &l.cfg.Telegram
	if t.Token == "" {
		return
	}
	if l.oneOf("telegram.updates", t.Updates, TelegramPolling, TelegramWebhook) && t.Updates == TelegramWebhook {
		if u, err := url.Parse(t.WebhookURL); err != nil || u.Scheme != "https" || u.Host == "" {
			l.fault("telegram.webhook_url", "want the public https address that leads to /channels/telegram")
		}
		if !webhookSecret.MatchString(t.WebhookSecret.Reveal()) {
			l.fault("telegram.webhook_secret", "want 16 to 256 of A-Z a-z 0-9 _ -")
		}
	}
	l.checkText("telegram.api_url", "required", t.APIURL)
	l.checkText("telegram.api_url", "url", t.APIURL)
	l.checkText("telegram.tenant", "name", t.Tenant)
	if t.Agent != "" {
		l.checkText("telegram.agent", "name", t.Agent)
	}
	l.checkText("telegram.approvals", "approvals", t.Approvals)
	between(l, "telegram.edit_every", t.EditEvery, 100*time.Millisecond, time.Minute)
}

func (l *loader) tools() {
	t := &l.cfg.Tools
	seen := map[string]bool{}
	each("tools.grpc_clients", t.GRPCClients, func(path, entry string) {
		client, err := parseGRPCClient(entry)
		if err != nil {
			l.fault(path, "%s", err)
			return
		}
		l.unique(path, client.name, seen, "%q is taken")
		l.address(path, client.address, 1)
	})
	r := &t.Research
	if r.Contact != "" {
		l.checkText("tools.research.contact", "email", r.Contact)
	}
	if r.WebProvider != "" && l.oneOf("tools.research.web_provider", r.WebProvider, "duckduckgo", "searxng", "brave") && r.WebProvider == "searxng" {
		l.checkText("tools.research.web_url", "required", r.WebURL)
	}
	l.maxEntries("tools.mcp.servers", len(t.MCP.Servers), maxMCPServers)
	seen = map[string]bool{}
	for i := range t.MCP.Servers {
		path := fmt.Sprintf("tools.mcp.servers[%d]", i)
		l.profileName(path+".name", t.MCP.Servers[i].Name, seen)
		each(path+".env", t.MCP.Servers[i].Env, func(path, entry string) {
			if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
				l.fault(path, "want NAME=value")
			}
		})
	}
	if k := t.Kubernetes; k.Enabled {
		l.checkText("tools.kubernetes.namespace", "required", k.Namespace)
		between(l, "tools.kubernetes.deadline", k.Deadline, time.Second, 7*time.Minute+30*time.Second) // a call ends after 8 minutes
		between(l, "tools.kubernetes.ttl", k.TTL, time.Minute, 30*24*time.Hour)
	}
}

func (l *loader) workflows() {
	mail := l.cfg.Workflows.SMTP
	if mail.Addr == "" {
		return
	}
	l.address("workflows.smtp.addr", mail.Addr, 1)
	l.checkText("workflows.smtp.from", "email", mail.From)
	each("workflows.smtp.to", mail.To, func(path, to string) { l.checkText(path, "email", to) })
	each("workflows.smtp.allow_to", mail.AllowTo, func(path, rule string) {
		if name := strings.TrimPrefix(rule, "*"); !strings.Contains(name, "@") || strings.ContainsAny(name, "* ") {
			l.fault(path, "want an address or *@domain")
		}
	})
	l.oneOf("workflows.smtp.tls", mail.TLS, "starttls", "tls", "none")
}

func (l *loader) telemetry() {
	t := &l.cfg.Telemetry
	if t.Content != "" {
		l.oneOf("telemetry.content", t.Content, ContentOff, ContentRedacted, ContentFull)
	}
	if t.LangfuseURL != "" {
		l.checkText("telemetry.langfuse_public_key", "required", t.LangfusePublicKey)
		l.checkText("telemetry.langfuse_secret_key", "required", t.LangfuseSecretKey.Reveal())
	}
}
