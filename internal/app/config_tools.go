package app

import "time"

// Tools is what toolkits may be given besides the built-in dependencies.
type Tools struct {
	// GRPCClients are services that toolkits ask for by name: "graph=graph.internal:9090", with TLS "graph=grpcs://graph.example.com:443".
	// Default none.
	GRPCClients []string `yaml:"grpc_clients" help:"gRPC services for toolkits (name=host:port, name=grpcs://host:port)"`

	Pipeline   Pipeline   `yaml:"pipeline"`
	OpenAPI    OpenAPI    `yaml:"openapi"`
	Research   Research   `yaml:"research"`
	MCP        MCP        `yaml:"mcp"`
	Kubernetes Kubernetes `yaml:"kubernetes"`
}

// Pipeline bounds execute_pipeline.
type Pipeline struct {
	// MaxBytes bounds a stored dataset that a pipeline reads; a response is bounded by egress.max_bytes. Default 256MiB.
	MaxBytes Size `yaml:"max_bytes" help:"largest stored dataset that a pipeline reads"`
	// CacheTTL is how long the answer of a pipeline without POST is reused by an equal one of the tenant. Default 1h; 0:
	// not at all. A tool binding may shorten it.
	CacheTTL time.Duration `yaml:"cache_ttl" help:"how long the answer of an equal pipeline is reused; 0: never"`
	// PromoteAfter is how often a tenant uses a pipeline's shape before it becomes a tool. Default 2; 0: never.
	PromoteAfter int `yaml:"promote_after" help:"uses after which a pipeline's shape becomes a tool; 0: never"`
}

// OpenAPI bounds openapi_action. Where it may go is egress.allow_hosts', and allow_hosts of a tool binding.
type OpenAPI struct {
	// CacheBytes is how much of documents a process keeps. Default 64MiB.
	CacheBytes Size `yaml:"cache_bytes" help:"memory for OpenAPI documents"`
	// MaxResponseBytes bounds an operation's answer; a tool binding may lower it. Default 8MiB, at most 32MiB.
	MaxResponseBytes Size `yaml:"max_response_bytes" help:"largest answer of an operation"`
	// Freshness is how long a document is used before its server is asked again, where the server says nothing of it. Default 5m.
	Freshness time.Duration `yaml:"freshness" help:"how long a document is used unasked"`
}

// Research says where the research toolkit searches, and who does.
type Research struct {
	// Contact is an email address at which the services reach the operator of this runtime. Default empty: none is given.
	Contact string `yaml:"contact" help:"email address given to the services that are searched"`
	// The addresses of the services. Default empty: the real ones.
	PubMedURL    string `yaml:"pubmed_url" help:"address of NCBI's E-utilities; empty: the real one"`
	TrialsURL    string `yaml:"trials_url" help:"address of ClinicalTrials.gov; empty: the real one"`
	PreprintsURL string `yaml:"preprints_url" help:"address of Europe PMC; empty: the real one"`
	OpenAlexURL  string `yaml:"openalex_url" help:"address of OpenAlex; empty: the real one"`
	// WebProvider is who search_web asks: duckduckgo, searxng or brave. Default "duckduckgo"; empty: there is no search_web.
	WebProvider string `yaml:"web_provider" help:"duckduckgo, searxng or brave; empty: no search_web"`
	// WebURL is its address; SearXNG has none of its own. Default empty: the real one.
	WebURL string `yaml:"web_url" help:"address of the web search"`
	// The rates are requests per second of this process, all its calls together. Default 0: what each service allows.
	PubMedRate    float64 `yaml:"pubmed_rate" help:"requests per second to PubMed; 0: what it allows"`
	TrialsRate    float64 `yaml:"trials_rate" help:"requests per second to ClinicalTrials.gov; 0: what it allows"`
	PreprintsRate float64 `yaml:"preprints_rate" help:"requests per second to Europe PMC; 0: what it allows"`
	OpenAlexRate  float64 `yaml:"openalex_rate" help:"requests per second to OpenAlex; 0: what it allows"`
	WebRate       float64 `yaml:"web_rate" help:"requests per second to the web search; 0: what it allows"`
	// MaxWait is how long a search waits for its place in a rate, and for what a service asks with Retry-After. Default 10s.
	MaxWait time.Duration `yaml:"max_wait" help:"longest wait for a place in a rate or for Retry-After"`
	// SourceTimeout bounds each source of search_research. Default 20s.
	SourceTimeout time.Duration `yaml:"source_timeout" help:"time for one source of search_research"`
}

// rates are those that are set, by source.
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
	// Servers run beside the worker and speak over stdin and stdout; only YAML can give them.
	Servers []MCPServer `yaml:"servers" help:"MCP servers that are started (YAML only)"`
}

// MCPServer is a command.
type MCPServer struct {
	Name    string   `yaml:"name"` // what tool bindings call it
	Command string   `yaml:"command"`
	Args    []string `yaml:"args"`
	Env     []string `yaml:"env"` // NAME=value; a value env:OTHER is that variable's of this process
	Dir     string   `yaml:"dir"` // working folder; empty: this process's
}

// Kubernetes is where delegate_to_agent runs containers.
type Kubernetes struct {
	// Enabled turns it on: with Kubeconfig, or from within a cluster. Default false.
	Enabled bool `yaml:"enabled" help:"run agents of other types as Jobs of a cluster"`
	// Kubeconfig is a file; empty: the account of the pod that this process runs in. Context is one of its contexts, empty: the current one.
	Kubeconfig string `yaml:"kubeconfig" help:"file that says how to reach the cluster; empty: from within"`
	Context    string `yaml:"context" help:"context of the kubeconfig; empty: its current one"`
	// Namespace of all Jobs. Default "default".
	Namespace string `yaml:"namespace" help:"namespace of the Jobs"`
	// Images may be run: "registry/repo", with ":tag" or "@sha256:…", "registry/team/*". Default none.
	Images []string `yaml:"images" help:"images that may be run"`
	// Interpreter is the image of code_interpreter. Default empty: there is none.
	Interpreter string `yaml:"interpreter" help:"image that runs code; empty: none"`
	// CPU and Memory are the most that a container may ask for. Default "1", "512Mi".
	CPU    string `yaml:"cpu" help:"most CPU of a container"`
	Memory string `yaml:"memory" help:"most memory of a container"`
	// EphemeralStorage is the disk of a container, its logs and /tmp together. Default "1Gi".
	EphemeralStorage string `yaml:"ephemeral_storage" help:"disk of a container"`
	// PullSecrets are Secrets of the namespace, for private registries. Default none.
	PullSecrets []string `yaml:"pull_secrets" help:"secrets for private registries"`
	// Deadline bounds a run, TTL how long a finished Job is kept. Default 7m, 1h.
	Deadline time.Duration `yaml:"deadline" help:"longest run of a container"`
	TTL      time.Duration `yaml:"ttl" help:"how long a finished Job is kept"`
	// RuntimeClass is a sandbox of the cluster, such as gvisor. Default empty.
	RuntimeClass string `yaml:"runtime_class" help:"runtime class of the pods"`
}

// Workflows says how defined workflows are kept and what their tasks may do.
type Workflows struct {
	// OrchestratorURL is an API that keeps the definitions in place of this runtime: patches go to {url}/workflows/{tag}:patch. Default
	// empty: they are kept here.
	OrchestratorURL string `yaml:"orchestrator_url" help:"API that workflow patches are forwarded to; empty: kept here"`
	// OrchestratorToken goes along as a bearer token. Default empty.
	OrchestratorToken Secret `yaml:"orchestrator_token" help:"bearer token for the orchestrator"`
	// ReconcileEvery is how often the schedules of all definitions are compared with Temporal's. Default 5m; 0: never.
	ReconcileEvery time.Duration `yaml:"reconcile_every" help:"how often schedules are put right; 0: never"`

	SMTP SMTP `yaml:"smtp"`
}

// SMTP is the server that email actions use.
type SMTP struct {
	// Addr is host:port. Default empty: email actions are refused.
	Addr string `yaml:"addr" help:"mail server (host:port); empty: no mail"`
	// From is the sender. Default empty: required with Addr.
	From string `yaml:"from" help:"sender of mails"`
	// To receives what names no recipient. Default none: such a mail is refused.
	To []string `yaml:"to" help:"recipients of mails that name none"`
	// AllowTo are addresses, or *@domain. Default none: any.
	AllowTo  []string `yaml:"allow_to" help:"who may be written to (address or *@domain); empty: anybody"`
	Username string   `yaml:"username" help:"user of the mail server"`
	Password Secret   `yaml:"password" help:"password of the mail server"`
	// TLS is starttls, tls, or none for a server on this machine. Default starttls.
	TLS string `yaml:"tls" help:"starttls, tls or none"`
}
