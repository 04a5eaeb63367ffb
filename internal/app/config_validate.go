package app

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/secret"
)

// maxModels bounds the list of further profiles.
const maxModels = 100

// validate checks every setting on its own and then those that must fit together. It adds faults and changes nothing.
func (l *loader) validate() {
	cfg := l.cfg
	l.required("data_dir", cfg.DataDir)
	between(l, "shutdown_timeout", cfg.ShutdownTimeout, time.Second, time.Hour)
	l.doors()
	l.temporal()
	l.stores()
	l.turns()

	l.model("llm", cfg.LLM)
	l.modelNames()
	for i, m := range cfg.Models {
		l.model(modelPath(i), m.LLM)
	}

	l.catalog()
	l.jobs()
	l.access()
	l.limits()
	l.channels()
	l.tools()
	l.workflows()
	l.telemetry()
	l.retention()
	l.egressRules("egress.allow_hosts", cfg.Egress.AllowHosts, func(rule string) egress.Config { return egress.Config{AllowHosts: []string{rule}} })
	l.egressRules("egress.allow_private", cfg.Egress.AllowPrivate, func(rule string) egress.Config { return egress.Config{AllowPrivate: []string{rule}} })
	between(l, "egress.max_bytes", cfg.Egress.MaxBytes, 1<<10, 1<<30)
	between(l, "egress.timeout", cfg.Egress.Timeout, time.Millisecond, time.Hour)

	l.oneOf("log.level", cfg.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", cfg.Log.Format, "json", "console")
	for i, kind := range cfg.Log.PII {
		l.oneOf(fmt.Sprintf("log.pii[%d]", i), kind, "email", "credit_card", "ip", "mac_address", "url")
	}
}

func (l *loader) doors() {
	cfg := l.cfg
	l.address("http.addr", cfg.HTTP.Addr, 0)
	l.address("grpc.addr", cfg.GRPC.Addr, 0)
	if cfg.Gateway.Enabled && cfg.HTTP.Addr == cfg.GRPC.Addr && !strings.HasSuffix(cfg.HTTP.Addr, ":0") {
		l.fault("grpc.addr", "is the address of HTTP as well")
	}
	if !cfg.Gateway.Enabled && !cfg.Worker.Enabled {
		l.fault("worker.enabled", "is false, and gateway.enabled as well: this process would do nothing")
	}
	between(l, "http.max_body_bytes", cfg.HTTP.MaxBodyBytes, 1<<10, 1<<30)
	between(l, "http.read_header_timeout", cfg.HTTP.ReadHeaderTimeout, 100*time.Millisecond, 10*time.Minute)
	for i, host := range cfg.HTTP.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/@ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			l.fault(fmt.Sprintf("http.allowed_hosts[%d]", i), "want a host name without scheme and port, or *")
		}
	}
	for i, origin := range cfg.HTTP.AllowedOrigins {
		if origin != "*" && !isOrigin(origin) {
			l.fault(fmt.Sprintf("http.allowed_origins[%d]", i), "want scheme://host or scheme://host:port, or *")
		}
	}
	for i, origin := range cfg.HTTP.CodecOrigins {
		if !isOrigin(origin) {
			l.fault(fmt.Sprintf("http.codec_origins[%d]", i), "want scheme://host or scheme://host:port")
		}
	}
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
	l.required("temporal.task_queue", t.TaskQueue)
	l.oneOf("temporal.model_calls", t.ModelCalls, string(agent.ModelCallsAuto), string(agent.ModelCallsLocal), string(agent.ModelCallsActivity))
	between(l, "temporal.max_concurrent_activities", t.MaxConcurrentActivities, 1, 10_000)
	between(l, "temporal.max_concurrent_local_activities", t.MaxConcurrentLocalActivities, 1, 10_000)
	between(l, "temporal.max_concurrent_workflow_tasks", t.MaxConcurrentWorkflowTasks, 2, 10_000) // the SDK refuses 1
	if keys := t.EncryptionKeys.Reveal(); keys != "" {
		if _, err := codec.ParseKeyList(keys); err != nil {
			l.fault("temporal.encryption_keys", "%s", err)
		}
	}
	between(l, "temporal.offload_bytes", t.OffloadBytes, 0, 1<<20) // Temporal itself takes no more than 2 MB
	between(l, "temporal.offload_keep", t.OffloadKeep, time.Hour, 100*365*24*time.Hour)
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
	between(l, "database.max_conns", cfg.Database.MaxConns, 2, 1000) // one listens for events, one works
	between(l, "storage.max_inline_bytes", cfg.Storage.MaxInlineBytes, 1<<10, 256<<20)
	if bucket := cfg.Storage.BlobURL.Reveal(); bucket != "" {
		if u, err := url.Parse(bucket); err != nil || u.Scheme == "" {
			l.fault("storage.blob_url", "want a bucket URL such as file:///path or s3://bucket")
		}
	}
	between(l, "storage.collect_every", cfg.Storage.CollectEvery, 0, 30*24*time.Hour)
	between(l, "storage.collect_after", cfg.Storage.CollectAfter, 15*time.Minute, 365*24*time.Hour)
	l.oneOf("events.log", cfg.Events.Log, LogPostgres, LogMemory)
	if cfg.Events.Log == LogMemory && (!cfg.Gateway.Enabled || !cfg.Worker.Enabled) {
		l.fault("events.log", "memory serves one process only, which has to be gateway and worker: enable both or use postgres")
	}
	between(l, "events.batch_interval", cfg.Events.BatchInterval, time.Millisecond, time.Second)
	between(l, "events.flush_interval", cfg.Events.FlushInterval, 10*time.Millisecond, time.Second)
	between(l, "events.retention", cfg.Events.Retention, time.Minute, 10*365*24*time.Hour)
	if cfg.Events.Relay.Address != "" {
		l.address("events.relay.address", cfg.Events.Relay.Address, 0)
	}
	if to := cfg.Events.Relay.Advertise; strings.Contains(to, ":") && net.ParseIP(to) == nil {
		l.address("events.relay.advertise", to, 1)
	}
}

func (l *loader) catalog() {
	c := l.cfg.Catalog
	between(l, "catalog.poll", c.Poll, 100*time.Millisecond, time.Hour)
	between(l, "catalog.plan_cache", c.PlanCache, 1, 1_000_000)
	between(l, "catalog.plan_ttl", c.PlanTTL, time.Second, 30*24*time.Hour)
	l.webAddress("catalog.follow.url", c.Follow.URL)
	l.redis("catalog.redis_url", c.RedisURL)
	l.secretGrants("catalog.secret_env", c.SecretEnv, func(entry string) secret.Config { return secret.Config{AllowEnv: []string{entry}} })
	l.secretGrants("catalog.secret_folders", c.SecretFolders, func(entry string) secret.Config { return secret.Config{Folders: []string{entry}} })
	seen := map[string]bool{}
	for i, entry := range l.cfg.Tools.GRPCClients {
		path := fmt.Sprintf("tools.grpc_clients[%d]", i)
		client, err := parseGRPCClient(entry)
		switch {
		case err != nil:
			l.fault(path, "%s", err)
		case seen[client.name]:
			l.fault(path, "%q is taken", client.name)
		default:
			l.address(path, client.address, 1)
		}
		seen[client.name] = true
	}
}

func (l *loader) redis(path string, to Secret) {
	if to == "" {
		return
	}
	if u, err := url.Parse(to.Reveal()); err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) {
		l.fault(path, "want redis://host:port, rediss://host:port or unix:///path")
	}
}

func (l *loader) approvals(path, policy string) {
	if err := agent.ApprovalPolicy(policy).Validate(path); err != nil {
		l.fault(path, "%s", agent.FailureOf(err).Message)
	}
}

func (l *loader) jobs() {
	j := l.cfg.Jobs
	l.redis("jobs.redis_url", j.RedisURL)
	l.required("jobs.queue", j.Queue)
	l.required("jobs.result_prefix", j.ResultPrefix)
	if !agent.ValidName(j.Tenant) {
		l.fault("jobs.tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	l.approvals("jobs.approvals", j.Approvals)
	between(l, "jobs.concurrency", j.Concurrency, 1, 10_000)
	between(l, "jobs.result_ttl", j.ResultTTL, 0, 365*24*time.Hour)
	between(l, "jobs.drain_timeout", j.DrainTimeout, time.Second, time.Hour)
}

func (l *loader) turns() {
	t, c := l.cfg.Turn, l.cfg.Conversation
	between(l, "turn.iterations", t.Iterations, 0, 10_000)
	l.oneOf("turn.on_unavailable", t.OnUnavailable, string(agent.UnavailableWait), string(agent.UnavailableRefuse), string(agent.UnavailableRun))
	between(l, "turn.model_calls", t.ModelCalls, 0, 10_000)
	between(l, "turn.tool_calls", t.ToolCalls, 0, 100_000)
	between(l, "turn.wall_time", t.WallTime, 0, 365*24*time.Hour)
	if t.WallTime%time.Second != 0 {
		l.fault("turn.wall_time", "want whole seconds")
	}
	between(l, "turn.tokens", t.Tokens, 0, math.MaxInt64)
	between(l, "turn.cost_usd", t.CostUSD, 0, 1e9)
	between(l, "turn.max_message_bytes", t.MaxMessageBytes, 1, 1<<30)
	if body := l.cfg.HTTP.MaxBodyBytes; body > 0 && t.MaxMessageBytes > body {
		l.fault("turn.max_message_bytes", "is above http.max_body_bytes (%s): such a message could not arrive", body)
	}
	between(l, "turn.queue_length", t.QueueLength, 1, 100_000)
	between(l, "turn.provider_wait", t.ProviderWait, 0, 24*time.Hour)
	between(l, "turn.direct_turns", t.DirectTurns, 1, 100_000)
	between(l, "turn.direct_max", t.DirectMax, 0, 24*time.Hour)
	between(l, "turn.begin_within", t.BeginWithin, 0, time.Hour)
	// Temporal's payload limit is 2 MB; the rest of the result needs room beside the output.
	between(l, "turn.history_output_bytes", t.HistoryOutputBytes, 1, 1<<20)
	between(l, "turn.output_bytes", t.OutputBytes, 1, 64<<20)
	// A run ends at 51,200 events, and the workflow finishes what is open before it continues.
	if t.ContinueAsNewEvents != 0 {
		between(l, "turn.continue_as_new_events", t.ContinueAsNewEvents, 20, 40_000)
	}
	between(l, "conversation.continue_as_new_events", c.ContinueAsNewEvents, 20, 40_000)
}

func modelPath(i int) string { return fmt.Sprintf("models[%d]", i) }

// providerName is also the pattern of ModelProfile.provider (docs/schemas/model_profile.json).
var providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

var profileName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (l *loader) modelNames() {
	if len(l.cfg.Models) > maxModels {
		l.fault("models", "has %d profiles, at most %d are allowed", len(l.cfg.Models), maxModels)
	}
	seen := map[string]bool{"default": true}
	for i, m := range l.cfg.Models {
		path := modelPath(i) + ".name"
		switch {
		case !profileName.MatchString(m.Name):
			l.fault(path, "want 1 to 64 letters, digits, dots, underscores or dashes")
		case seen[m.Name]:
			l.fault(path, "%q is taken", m.Name)
		}
		seen[m.Name] = true
	}
}

func (l *loader) model(path string, m LLM) {
	if !providerName.MatchString(m.Provider) { // which ones there are, the program says: CheckProviders
		l.fault(path+".provider", "want a name such as openai: lower case letters, digits and dashes, got %q", m.Provider)
	} else {
		l.required(path+".model", m.Model)
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
	if strings.ContainsFunc(m.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		l.fault(path+".api_key", "holds a space, a line break or a character outside ASCII")
	}
	between(l, path+".temperature", m.Temperature, 0, 2)
	between(l, path+".max_tokens", m.MaxTokens, 1, 1_000_000)
	between(l, path+".timeout_sec", m.TimeoutSec, 1, 3600)
	between(l, path+".max_retries", m.MaxRetries, 0, 10)
	between(l, path+".input_per_mtok", m.InputPerMTok, 0, 1e6)
	between(l, path+".cached_per_mtok", m.CachedPerMTok, 0, 1e6)
	between(l, path+".output_per_mtok", m.OutputPerMTok, 0, 1e6)
}

// egressRules has the egress client itself judge each rule, so that there is one grammar.
func (l *loader) egressRules(path string, rules []string, with func(rule string) egress.Config) {
	for i, rule := range rules {
		_, err := egress.New(with(rule))
		l.entryFault(path, i, err)
	}
}

// secretGrants has the resolver of secrets judge each grant, so that there is one grammar.
func (l *loader) secretGrants(path string, grants []string, with func(grant string) secret.Config) {
	for i, grant := range grants {
		_, err := secret.New(with(grant))
		l.entryFault(path, i, err)
	}
}

// entryFault adds a fault about an entry of a list, if err is one.
func (l *loader) entryFault(path string, i int, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		message = e.Err.Error()
	}
	l.fault(path+"["+strconv.Itoa(i)+"]", "%s", message)
}

// fault names the place that the value came from; for an element of a list or a model that is the whole.
func (l *loader) fault(path, format string, args ...any) {
	origin := ""
	for p := path; origin == "" && p != ""; p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
		origin = l.cfg.origins[p]
	}
	l.faults.add(origin, path, format, args...)
}

func (l *loader) required(path, value string) {
	if strings.TrimSpace(value) == "" {
		l.fault(path, "is required")
	}
}

func (l *loader) oneOf(path, value string, allowed ...string) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	if value == "" {
		l.fault(path, "is required: one of %s", strings.Join(allowed, ", "))
	} else {
		l.fault(path, "want one of %s, got %q", strings.Join(allowed, ", "), value)
	}
	return false
}

// address wants host:port with a port of at least lowest; an empty host is every interface.
func (l *loader) address(path, value string, lowest uint64) {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		l.fault(path, "want host:port, got %q", value)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < lowest {
		l.fault(path, "want a port from %d to 65535, got %q", lowest, port)
	}
}

// between also refuses NaN, which no comparison finds outside.
func between[T cmp.Ordered](l *loader, path string, value, low, high T) {
	if value >= low && value <= high {
		return
	}
	l.fault(path, "want %v to %v, got %v", low, high, value)
}
