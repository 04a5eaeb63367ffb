package app

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// maxMCPServers bounds the list of MCP servers, which only YAML can give.
const maxMCPServers = 64

// Tools are the settings of toolkits.
type Tools struct {
	// GRPCClients are services that toolkits ask for by name: "graph=graph.internal:9090", with TLS "graph=grpcs://graph.example.com:443".
	GRPCClients []string `yaml:"grpc_clients" help:"gRPC services for toolkits (name=host:port, name=grpcs://host:port)"`

	Pipeline   Pipeline   `yaml:"pipeline"`
	OpenAPI    OpenAPI    `yaml:"openapi"`
	Research   Research   `yaml:"research"`
	MCP        MCP        `yaml:"mcp"`
	Kubernetes Kubernetes `yaml:"kubernetes"`
}

// Pipeline bounds execute_pipeline.
type Pipeline struct {
	// MaxBytes: egress.max_bytes bounds a response.
	MaxBytes Size `yaml:"max_bytes" default:"256MiB" range:"1KiB..1GiB" help:"largest stored dataset that a pipeline reads"`
	// CacheTTL is for pipelines without POST, within a tenant. A tool binding may shorten it.
	CacheTTL     time.Duration `yaml:"cache_ttl" default:"1h" range:"0s..720h" help:"how long the answer of an equal pipeline is reused; 0: never"`
	PromoteAfter int           `yaml:"promote_after" default:"2" range:"0..1000000" help:"uses after which a pipeline's shape becomes a tool; 0: never"`
}

// OpenAPI bounds openapi_action. The hosts are bounded by egress.allow_hosts, and by allow_hosts of a tool binding.
type OpenAPI struct {
	CacheBytes Size `yaml:"cache_bytes" default:"64MiB" range:"1MiB..4GiB" help:"memory for OpenAPI documents"`
	// MaxResponseBytes may be lowered by a tool binding.
	MaxResponseBytes Size `yaml:"max_response_bytes" default:"8MiB" range:"1KiB..32MiB" help:"largest answer of an operation"`
	// Freshness is for documents whose server does not say how long they are valid.
	Freshness time.Duration `yaml:"freshness" default:"5m" range:"1s..24h" help:"how long a document is used unasked"`
}

// Research says where the research toolkit searches. The rates are requests per second of this process, all its calls together.
type Research struct {
	Contact      string `yaml:"contact" help:"email address given to the services that are searched"`
	PubMedURL    string `yaml:"pubmed_url" check:"url" help:"address of NCBI's E-utilities; empty: the real one"`
	TrialsURL    string `yaml:"trials_url" check:"url" help:"address of ClinicalTrials.gov; empty: the real one"`
	PreprintsURL string `yaml:"preprints_url" check:"url" help:"address of Europe PMC; empty: the real one"`
	OpenAlexURL  string `yaml:"openalex_url" check:"url" help:"address of OpenAlex; empty: the real one"`
	WebProvider  string `yaml:"web_provider" default:"duckduckgo" help:"duckduckgo, searxng or brave; empty: no search_web"`
	// WebURL is required for searxng.
	WebURL        string        `yaml:"web_url" check:"url" help:"address of the web search"`
	PubMedRate    float64       `yaml:"pubmed_rate" range:"0|0.001..1000" help:"requests per second to PubMed; 0: what it allows"`
	TrialsRate    float64       `yaml:"trials_rate" range:"0|0.001..1000" help:"requests per second to ClinicalTrials.gov; 0: what it allows"`
	PreprintsRate float64       `yaml:"preprints_rate" range:"0|0.001..1000" help:"requests per second to Europe PMC; 0: what it allows"`
	OpenAlexRate  float64       `yaml:"openalex_rate" range:"0|0.001..1000" help:"requests per second to OpenAlex; 0: what it allows"`
	WebRate       float64       `yaml:"web_rate" range:"0|0.001..1000" help:"requests per second to the web search; 0: what it allows"`
	MaxWait       time.Duration `yaml:"max_wait" default:"10s" range:"1s..5m" help:"longest wait for a place in a rate or for Retry-After"`
	SourceTimeout time.Duration `yaml:"source_timeout" default:"20s" range:"1s..5m" help:"time for one source of search_research"`
}

// rates returns the rates that are set, by source.
func (r *Research) rates() map[string]float64 {
	rates := map[string]float64{}
	for source, rate := range map[string]float64{
		"pubmed": r.PubMedRate, "clinical_trials": r.TrialsRate, "preprints": r.PreprintsRate, "openalex": r.OpenAlexRate, "web": r.WebRate,
	} {
		if rate > 0 {
			rates[source] = rate
		}
	}
	return rates
}

// MCP lists servers of the Model Context Protocol that this process starts. Those with a URL are named by tool bindings.
type MCP struct {
	// Servers run beside the worker and speak over stdin and stdout.
	Servers []MCPServer `yaml:"servers" help:"MCP servers that are started (YAML only)"`
}

// MCPServer is a command.
type MCPServer struct {
	Name    string   `yaml:"name"` // what tool bindings call it
	Command string   `yaml:"command" check:"required"`
	Args    []string `yaml:"args"`
	Env     []string `yaml:"env"` // NAME=value; a value env:OTHER is that variable's of this process
	Dir     string   `yaml:"dir"` // working folder; empty: this process's
}

// Kubernetes is the cluster in which delegate_to_agent runs containers.
type Kubernetes struct {
	Enabled bool `yaml:"enabled" help:"run agents of other types as Jobs of a cluster"`
	// Kubeconfig, if it is empty, is the account of the pod that this process runs in.
	Kubeconfig string `yaml:"kubeconfig" help:"file that says how to reach the cluster; empty: from within"`
	Context    string `yaml:"context" help:"context of the kubeconfig; empty: its current one"`
	Namespace  string `yaml:"namespace" default:"default" help:"namespace of the Jobs"`
	// Images are "registry/repo", with ":tag" or "@sha256:…", or "registry/team/*".
	Images      []string `yaml:"images" help:"images that may be run"`
	Interpreter string   `yaml:"interpreter" help:"image that runs code; empty: none"`
	CPU         string   `yaml:"cpu" default:"1" help:"most CPU of a container"`
	Memory      string   `yaml:"memory" default:"512Mi" help:"most memory of a container"`
	// EphemeralStorage holds logs and /tmp.
	EphemeralStorage string        `yaml:"ephemeral_storage" default:"1Gi" help:"disk of a container"`
	PullSecrets      []string      `yaml:"pull_secrets" help:"secrets for private registries"`
	Deadline         time.Duration `yaml:"deadline" default:"7m" help:"longest run of a container"`
	TTL              time.Duration `yaml:"ttl" default:"1h" help:"how long a finished Job is kept"`
	// RuntimeClass is a sandbox of the cluster, such as gvisor.
	RuntimeClass string `yaml:"runtime_class" help:"runtime class of the pods"`
}

// Workflows says how defined workflows are kept and what their tasks may do.
type Workflows struct {
	// OrchestratorURL: patches go to {url}/workflows/{tag}:patch.
	OrchestratorURL   string `yaml:"orchestrator_url" check:"url" help:"API that workflow patches are forwarded to; empty: kept here"`
	OrchestratorToken Secret `yaml:"orchestrator_token" help:"bearer token for the orchestrator"`
	// ReconcileEvery is how often the schedules of all definitions are compared with Temporal's.
	ReconcileEvery time.Duration `yaml:"reconcile_every" default:"5m" range:"0s..24h" help:"how often schedules are put right; 0: never"`

	SMTP SMTP `yaml:"smtp"`
}

// SMTP is the server that email actions use.
type SMTP struct {
	Addr string `yaml:"addr" help:"mail server (host:port); empty: no mail"`
	// From is required with Addr.
	From string `yaml:"from" help:"sender of mails"`
	// To: without it, a mail that names no recipient is refused.
	To       []string `yaml:"to" help:"recipients of mails that name none"`
	AllowTo  []string `yaml:"allow_to" help:"who may be written to (address or *@domain); empty: anybody"`
	Username string   `yaml:"username" help:"user of the mail server"`
	Password Secret   `yaml:"password" help:"password of the mail server"`
	// TLS: none is for a server on this machine.
	TLS string `yaml:"tls" default:"starttls" help:"starttls, tls or none"`
}

var webhookSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)

// checkTelegram checks the settings of a bot, if there is one.
func (l *loader) checkTelegram() {
	t := &l.cfg.Telegram
	if t.Token == "" {
		return
	}
	if l.checkOneOf("telegram.updates", t.Updates, TelegramPolling, TelegramWebhook) && t.Updates == TelegramWebhook {
		if u, err := url.Parse(t.WebhookURL); err != nil || u.Scheme != "https" || u.Host == "" {
			l.addFault("telegram.webhook_url", "want the public https address that leads to /channels/telegram")
		}
		if !webhookSecret.MatchString(t.WebhookSecret.Reveal()) {
			l.addFault("telegram.webhook_secret", "want 16 to 256 of A-Z a-z 0-9 _ -")
		}
	}
	l.checkText("telegram.api_url", "required", t.APIURL)
	l.checkText("telegram.api_url", "url", t.APIURL)
	l.checkText("telegram.tenant", "name", t.Tenant)
	if t.Agent != "" {
		l.checkText("telegram.agent", "name", t.Agent)
	}
	l.checkText("telegram.approvals", "approvals", t.Approvals)
	checkBetween(l, "telegram.edit_every", t.EditEvery, 100*time.Millisecond, time.Minute)
}

func (l *loader) checkTools() {
	t := &l.cfg.Tools
	seen := map[string]bool{}
	each("tools.grpc_clients", t.GRPCClients, func(path, entry string) {
		client, err := parseGRPCClient(entry)
		if err != nil {
			l.addFault(path, "%s", err)
			return
		}
		l.checkUnique(path, client.name, seen, "%q is taken")
		l.checkAddress(path, client.address, 1)
	})
	research := &t.Research
	if research.Contact != "" {
		l.checkText("tools.research.contact", "email", research.Contact)
	}
	if research.WebProvider != "" {
		l.checkOneOf("tools.research.web_provider", research.WebProvider, "duckduckgo", "searxng", "brave")
	}
	if research.WebProvider == "searxng" {
		l.checkText("tools.research.web_url", "required", research.WebURL)
	}
	l.checkCount("tools.mcp.servers", len(t.MCP.Servers), maxMCPServers)
	seen = map[string]bool{}
	for i := range t.MCP.Servers {
		path := fmt.Sprintf("tools.mcp.servers[%d]", i)
		l.checkProfileName(path+".name", t.MCP.Servers[i].Name, seen)
		each(path+".env", t.MCP.Servers[i].Env, func(path, entry string) {
			if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
				l.addFault(path, "want NAME=value")
			}
		})
	}
	if k := t.Kubernetes; k.Enabled {
		l.checkText("tools.kubernetes.namespace", "required", k.Namespace)
		checkBetween(l, "tools.kubernetes.deadline", k.Deadline, time.Second, 7*time.Minute+30*time.Second) // a call ends after 8 minutes
		checkBetween(l, "tools.kubernetes.ttl", k.TTL, time.Minute, 30*24*time.Hour)
	}
}

func (l *loader) checkWorkflows() {
	mail := l.cfg.Workflows.SMTP
	if mail.Addr == "" {
		return
	}
	l.checkAddress("workflows.smtp.addr", mail.Addr, 1)
	l.checkText("workflows.smtp.from", "email", mail.From)
	each("workflows.smtp.to", mail.To, func(path, to string) { l.checkText(path, "email", to) })
	each("workflows.smtp.allow_to", mail.AllowTo, func(path, rule string) {
		if name := strings.TrimPrefix(rule, "*"); !strings.Contains(name, "@") || strings.ContainsAny(name, "* ") {
			l.addFault(path, "want an address or *@domain")
		}
	})
	l.checkOneOf("workflows.smtp.tls", mail.TLS, "starttls", "tls", "none")
}
