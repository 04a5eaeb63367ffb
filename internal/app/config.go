package app

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Config is everything that can be set from outside, in one place. [Load] fills it from turnstone.yaml, the environment and flags,
// each overriding the one before; [Default] holds what applies when nothing is said. A field's path in YAML (http.addr) gives its
// variable (TURNSTONE_HTTP_ADDR) and its flag (--http-addr); the tag env names further variables that many tools share, help is the
// line that --help and docs/configuration.md show.
//
// A Config is made once at start and not changed afterwards.
type Config struct {
	// DataDir keeps what has no other home: blobs, and the state of the embedded stack. Default ".turnstone". [Load] makes it absolute.
	DataDir string `yaml:"data_dir" help:"folder for local state"`
	// ShutdownTimeout bounds the drain after SIGTERM; what still runs then goes to another worker. Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" help:"how long work may finish after a stop signal"`

	HTTP         HTTP         `yaml:"http"`
	GRPC         GRPC         `yaml:"grpc"`
	Gateway      Gateway      `yaml:"gateway"`
	Worker       Worker       `yaml:"worker"`
	Temporal     Temporal     `yaml:"temporal"`
	Database     Database     `yaml:"database"`
	Storage      Storage      `yaml:"storage"`
	Events       Events       `yaml:"events"`
	Turn         Turn         `yaml:"turn"`
	Conversation Conversation `yaml:"conversation"`
	LLM          LLM          `yaml:"llm"`
	// Models are further model profiles by name; only YAML can give them. What one leaves out is as in [Default], not as in llm.
	Models  []Model `yaml:"models" help:"further model profiles (YAML only)"`
	Catalog Catalog `yaml:"catalog"`
	Tools   Tools   `yaml:"tools"`
	Jobs    Jobs    `yaml:"jobs"`

	Auth      Auth      `yaml:"auth"`
	Limits    Limits    `yaml:"limits"`
	Telegram  Telegram  `yaml:"telegram"`
	Schedules Schedules `yaml:"schedules"`
	Retention Retention `yaml:"retention"`
	Console   Console   `yaml:"console"`

	Workflows Workflows `yaml:"workflows"`

	Egress Egress `yaml:"egress"`

	Log       Log       `yaml:"log"`
	Telemetry Telemetry `yaml:"telemetry"`
	Metrics   Metrics   `yaml:"metrics"`

	origins  map[string]string // field path → where its value came from; absent: default
	warnings []string
}

// HTTP is the REST, SSE and WebSocket door.
type HTTP struct {
	// Addr is host:port; port 0 takes a free one. Default "127.0.0.1:8080": authentication is off unless it is configured.
	Addr string `yaml:"addr" help:"address of REST, SSE and WebSocket (host:port)"`
	// MaxBodyBytes bounds a request body and a gRPC message; JSON may write a message several times its size. Default 8MiB.
	MaxBodyBytes Size `yaml:"max_body_bytes" help:"largest request body"`
	// ReadHeaderTimeout bounds the arrival of a request's headers, and again of its body. Default 10s.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" help:"how long a client may take to send its request"`
	// AllowedHosts are names a Host header may carry besides the loopback ones, without port; "*" allows every one. Default none.
	AllowedHosts []string `yaml:"allowed_hosts" help:"Host names accepted besides loopback"`
	// AllowedOrigins are origins (scheme://host[:port]) that pages may call from, "*" likewise. Default none.
	AllowedOrigins []string `yaml:"allowed_origins" help:"Origins accepted besides loopback"`
	// CodecOrigins are the origins of Temporal Web UIs whose pages may have payloads decoded at /codec. Default none.
	CodecOrigins []string `yaml:"codec_origins" help:"origins of the Temporal Web UI that may call /codec"`
	// TLSCert and TLSKey are PEM files. Default empty: plain HTTP.
	TLSCert string `yaml:"tls_cert" help:"certificate of HTTP (PEM file); empty: no TLS"`
	TLSKey  string `yaml:"tls_key" help:"its key (PEM file)"`
}

// GRPC is the gRPC door.
type GRPC struct {
	// Addr is host:port; port 0 takes a free one. Default "127.0.0.1:9090".
	Addr string `yaml:"addr" help:"address of gRPC (host:port)"`
	// TLSCert and TLSKey are PEM files. Default empty: no TLS.
	TLSCert string `yaml:"tls_cert" help:"certificate of gRPC (PEM file); empty: no TLS"`
	TLSKey  string `yaml:"tls_key" help:"its key (PEM file)"`
	// ClientCA is a PEM file of those who sign client certificates (mTLS). Default empty: none is asked for.
	ClientCA string `yaml:"client_ca" help:"who signs client certificates (PEM file); empty: none is asked for"`
}

// Gateway decides whether this process serves HTTP and gRPC.
type Gateway struct {
	// Enabled starts both doors in this process. Default true.
	Enabled bool `yaml:"enabled" help:"serve HTTP and gRPC from this process"`
	// DirectChannels are whose turns run without a workflow where neither the request nor its agent says how: http, grpc, ws, openai, …
	// Default none.
	DirectChannels []string `yaml:"direct_channels" help:"channels whose turns are direct unless said otherwise"`
	// AuditKeep is how long the audit trail is kept. Default 8760h; 0: for ever.
	AuditKeep time.Duration `yaml:"audit_keep" help:"how long the audit trail is kept; 0: for ever"`
}

// Worker decides whether this process runs turns.
type Worker struct {
	// Enabled polls the task queue and does the upkeep. Default true; false makes the process a gateway alone, which needs a worker elsewhere.
	Enabled bool `yaml:"enabled" help:"run turns and upkeep in this process"`
}

// Temporal holds our overrides only: address, namespace, API key and TLS come from TEMPORAL_* variables and temporal.toml, as for
// every SDK and for the CLI ([TemporalOptions]).
type Temporal struct {
	// Address is the frontend's host:port. Default empty: the profile's, else 127.0.0.1:7233.
	Address string `yaml:"address" env:"TEMPORAL_ADDRESS" help:"Temporal frontend (host:port); empty: the profile's, else 127.0.0.1:7233"`
	// Namespace default empty: the profile's, else "default".
	Namespace string `yaml:"namespace" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace; empty: the profile's, else default"`
	// Profile is a section of the configuration file. Default empty: "default", if there is one.
	Profile string `yaml:"profile" env:"TEMPORAL_PROFILE" help:"profile in temporal.toml"`
	// ConfigFile default empty: temporalio/temporal.toml in the user's configuration folder, if it exists.
	ConfigFile string `yaml:"config_file" env:"TEMPORAL_CONFIG_FILE" help:"path of temporal.toml"`
	// TaskQueue is where turns and activities are asked for. Default "turnstone".
	TaskQueue string `yaml:"task_queue" help:"task queue of turns and activities"`
	// EagerStart lets a worker that starts a turn run its first task without a round trip. Default true; false where the server refuses it.
	EagerStart bool `yaml:"eager_start" help:"start turns on this worker without a round trip"`
	// ModelCalls is how model calls run: as normal activities, which the Web UI shows while they run, as local ones, which cost less than
	// half of the history but block queries and updates of the turn, or auto: local while nine in ten calls of the model take less than 4 s.
	// Default auto.
	ModelCalls string `yaml:"model_calls" help:"run model calls as local activities, normal ones, or auto: local where they are short"`
	// MaxConcurrentActivities, …LocalActivities and …WorkflowTasks bound what one worker runs at once. Default 200 each.
	MaxConcurrentActivities      int `yaml:"max_concurrent_activities" help:"activities running at once"`
	MaxConcurrentLocalActivities int `yaml:"max_concurrent_local_activities" help:"local activities running at once"`
	MaxConcurrentWorkflowTasks   int `yaml:"max_concurrent_workflow_tasks" help:"workflow tasks running at once"`

	WorkerVersioning WorkerVersioning `yaml:"worker_versioning"`

	// EncryptionKeys encrypt what Temporal keeps: "id:key,…", keys of 32 bytes in base64 or hex. The first encrypts, all decrypt. Default empty:
	// payloads are plain JSON.
	EncryptionKeys Secret `yaml:"encryption_keys" help:"id:key,… (32 bytes, base64 or hex) for payloads; the first encrypts; empty: plain"`
	// OffloadBytes: a larger payload is kept in the blob store, with a reference in history. Default 0: none is.
	OffloadBytes Size `yaml:"offload_bytes" help:"payloads above this are kept in the blob store; 0: none"`
	// OffloadKeep is how long they are kept there: longer than the namespace keeps histories. Default 2160h.
	OffloadKeep time.Duration `yaml:"offload_keep" help:"how long offloaded payloads are kept"`
}

// WorkerVersioning names this build to Temporal's worker deployments. Both empty, the default: not versioned.
type WorkerVersioning struct {
	// Deployment is the name that all versions of the worker share. Default empty.
	Deployment string `yaml:"deployment" help:"worker deployment name; empty: not versioned"`
	// BuildID is this build's version. Default empty.
	BuildID string `yaml:"build_id" help:"build id within the deployment"`
}

// Database is PostgreSQL.
type Database struct {
	// URL is a PostgreSQL URL or DSN. Default empty: the embedded stack's own; a worker needs one.
	URL Secret `yaml:"url" env:"DATABASE_URL" help:"PostgreSQL URL"`
	// MaxConns bounds this process's connections. Default 10.
	MaxConns int `yaml:"max_conns" help:"most database connections"`
}

// Storage is where results live.
type Storage struct {
	// MaxInlineBytes: a larger result goes to the blob store instead of JSONB. Default 10485760 (10 MiB).
	MaxInlineBytes Size `yaml:"max_inline_bytes" help:"largest result kept in the database"`
	// BlobURL is a bucket (file://, s3://, gs://, azblob://). Default: the folder blobs of data_dir, filled in by [Load]. It is a
	// secret because such a URL may carry credentials in its query.
	BlobURL Secret `yaml:"blob_url" help:"bucket URL of the blob store; empty: the folder blobs in data_dir"`
	// CollectEvery is how often content that nothing refers to is removed, by one of all processes. Default 1h; 0: never.
	CollectEvery time.Duration `yaml:"collect_every" help:"how often to remove content that nothing refers to; 0: never"`
	// CollectAfter is how long content stays that nothing refers to. Default 1h: longer than a tool takes between storing rows and its answer.
	CollectAfter time.Duration `yaml:"collect_after" help:"how long content stays that nothing refers to"`
}

// Kinds of event log.
const (
	LogPostgres = "postgres"
	LogMemory   = "memory" // one process only
)

// Events is the event log.
type Events struct {
	// Log is [LogPostgres] or [LogMemory]. Default postgres.
	Log string `yaml:"log" help:"postgres, or memory for one process only"`
	// BatchInterval is how long tokens gather that follow one another closely. Default 10ms; 1ms to 1s.
	BatchInterval time.Duration `yaml:"batch_interval" help:"how long tokens gather that follow one another closely; the first is shown at once"`
	// FlushInterval is how long events may be shown before they are stored. Default 250ms; 10ms to 1s.
	FlushInterval time.Duration `yaml:"flush_interval" help:"how long events may be shown before they are stored, those of all streams together"`
	// Retention is how long a closed stream can be followed. Default 168h.
	Retention time.Duration `yaml:"retention" help:"how long a finished stream can be read"`
	Relay     EventRelay    `yaml:"relay"`
}

// EventRelay is how the processes of an installation hand each other events before they are stored. It needs [LogPostgres].
type EventRelay struct {
	// Enabled default true; false makes processes read each other's streams from the database.
	Enabled bool `yaml:"enabled" help:"hand events to other processes before they are stored"`
	// Address is host:port. Default: a free port of the address by which this host reaches the database.
	Address string `yaml:"address" help:"where other processes connect, host:port; empty: a free port of the address by which this host reaches PostgreSQL"`
	// Advertise is a host or host:port. Default: where this process listens.
	Advertise string `yaml:"advertise" help:"host, or host:port, by which others reach that; empty: as it is"`
}

// Turn holds the ceilings of one turn. A plan or request can only lower the limits.
type Turn struct {
	// Iterations bounds the rounds of the loop, each an answer of the model and the tools that it asks for. Default 0: no bound.
	Iterations int `yaml:"iterations" help:"rounds of model and tools in one turn; 0: no bound"`
	// ModelCalls bounds all calls of models, retries included. Default 25; 0: no bound.
	ModelCalls int `yaml:"model_calls" help:"model calls of one turn; 0: no bound"`
	// ToolCalls default 50; 0: no bound.
	ToolCalls int `yaml:"tool_calls" help:"tool calls of one turn; 0: no bound"`
	// WallTime is measured from the turn's start, human pauses not counted, in whole seconds. Default 1h; 0: no bound.
	WallTime time.Duration `yaml:"wall_time" help:"duration of one turn without human pauses; 0: no bound"`
	// Tokens is input plus output over all model calls. Default 0: no bound.
	Tokens int64 `yaml:"tokens" help:"input and output tokens of one turn; 0: no bound"`
	// CostUSD is over all model calls, by the prices in llm and models. Default 0: no bound.
	CostUSD float64 `yaml:"cost_usd" help:"cost of one turn in USD; 0: no bound"`
	// MaxMessageBytes bounds the messages of a request, together. Default 1MiB.
	MaxMessageBytes Size `yaml:"max_message_bytes" help:"largest message of a request"`
	// QueueLength is how many turns may wait in one session. Default 100.
	QueueLength int `yaml:"queue_length" help:"turns waiting in one session"`
	// OnUnavailable is wait, refuse or run: what becomes of calls that need an approval while approvals cannot be reached. Default wait.
	OnUnavailable string `yaml:"on_unavailable" help:"a call that needs an approval while approvals cannot be reached: wait, refuse or run"`
	// ProviderWait is how long a turn waits in all for an answer of a model provider that is away or busy. The pauses count as the turn's wall
	// time. Default 15m; 0: the turn fails as soon as the provider does.
	ProviderWait time.Duration `yaml:"provider_wait" help:"how long a turn waits in all for a model provider that is away or busy; 0: it fails at once"`
	// DirectTurns is how many direct turns one process runs at the same time; one too many runs as a workflow. Default 256.
	DirectTurns int `yaml:"direct_turns" help:"direct turns that one process runs at the same time; one too many runs as a workflow"`
	// DirectMax is how long a turn may be direct; one that lasts longer goes on as a workflow before its next step. Default 2m; 0: no bound.
	DirectMax time.Duration `yaml:"direct_max" help:"a direct turn that lasts longer goes on as a workflow before its next step; 0: none does"`
	// BeginWithin bounds the turns that start at the same time, so that each begins within it; one too many is refused. Default 2s; 0: no bound.
	BeginWithin time.Duration `yaml:"begin_within" help:"time within which accepted turns begin; more turns are refused; 0: none is"`
	// HistoryOutputBytes: more of the answer is left out of the workflow's result; result_ref has the rest. Default 1024.
	HistoryOutputBytes Size `yaml:"history_output_bytes" help:"output kept in workflow history"`
	// OutputBytes likewise for what the API answers. Default 64KiB.
	OutputBytes Size `yaml:"output_bytes" help:"output in an answer of the API"`
	// ContinueAsNewEvents is a count of history events. Default 0: when the server suggests it.
	ContinueAsNewEvents int `yaml:"continue_as_new_events" help:"history events before a turn continues as new; 0: the server's suggestion"`
}

// Limits are the ceilings that a plan starts from.
func (t Turn) Limits() agent.Limits {
	return agent.Limits{
		Iterations:  t.Iterations,
		ModelCalls:  t.ModelCalls,
		ToolCalls:   t.ToolCalls,
		Tokens:      t.Tokens,
		CostUSD:     t.CostUSD,
		WallTimeSec: int64(t.WallTime / time.Second),
	}
}

// Conversation bounds the workflow of that name.
type Conversation struct {
	// ContinueAsNewEvents is a count of history events. Default 2000.
	ContinueAsNewEvents int `yaml:"continue_as_new_events" help:"history events before a conversation continues as new"`
}

// Providers of models that this package treats in a way of their own; docs/models.md has them all.
const (
	ProviderOpenAI    = "openai" // also everything compatible with it, by base_url
	ProviderAnthropic = "anthropic"
	ProviderOllama    = "ollama"
	ProviderOffline   = "offline" // the deterministic model of the embedded stack
)

// LLM is a model profile: which model answers, and how. The one under llm is the default profile.
type LLM struct {
	// Provider default empty; [Load] then takes openai or anthropic, whichever key is in the environment (in this order), else offline.
	Provider string `yaml:"provider" help:"who runs the model (models.md has the names); empty: by the key that is set"`
	// Model is the provider's name for it. Default empty; [Load] fills in what it knows for the provider, unless base_url names another service.
	Model string `yaml:"model" help:"model name; empty: gpt-4o for openai, claude-sonnet-5-5 for anthropic"`
	// BaseURL is an http or https URL. Default empty: the provider's own.
	BaseURL string `yaml:"base_url" help:"API of the provider; empty: its own"`
	// APIKey default empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, by provider.
	APIKey Secret `yaml:"api_key" help:"API key; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, by provider"`
	// Temperature is 0 to 2. Default 0.1.
	Temperature float64 `yaml:"temperature" help:"sampling temperature, 0 to 2"`
	// MaxTokens bounds one reply. Default 4000.
	MaxTokens int `yaml:"max_tokens" help:"tokens of one reply"`
	// TimeoutSec is the longest silence between two bytes, in seconds, not the longest call. Default 120.
	TimeoutSec int `yaml:"timeout_sec" help:"longest silence of the provider in seconds"`
	// MaxRetries is how often the middleware model_retry tries again, for agents that do not list it too; the SDKs' own retries are off.
	// That of llm is also for profiles that are documents. Default 2.
	MaxRetries int `yaml:"max_retries" help:"retries of a failed model call, where model_retry of an agent does not say; 0: none"`
	// InputPerMTok, CachedPerMTok and OutputPerMTok are prices in USD per million tokens, for the ledger. Default 0: not known.
	InputPerMTok  float64 `yaml:"input_per_mtok" help:"USD per million input tokens"`
	CachedPerMTok float64 `yaml:"cached_per_mtok" help:"USD per million cached input tokens"`
	OutputPerMTok float64 `yaml:"output_per_mtok" help:"USD per million output tokens"`
}

// Model is a further model profile.
type Model struct {
	// Name is what requests and definitions call it: 1 to 64 of [A-Za-z0-9._-], not "default", each once.
	Name string `yaml:"name" help:"name of the profile"`
	LLM  `yaml:",inline"`
}

// Catalog is where agents, tools, models and routes come from.
type Catalog struct {
	// Folder holds documents (*.yaml, *.yml, *.json) that are watched and applied, for development. Default empty: the API alone
	// changes the catalog.
	Folder string `yaml:"folder" help:"folder of catalog documents to watch and apply; empty: none"`
	// Shipped serves the documents that come with the product: the analyst and the route to it. Default true.
	Shipped bool `yaml:"shipped" help:"serve the documents that come with the product"`
	// Poll is how often the database is asked whether a change was missed; notifications come at once. Default 5s.
	Poll time.Duration `yaml:"poll" help:"how often to look for changes that no notification told"`
	// PlanCache is how many compiled plans a process keeps at hand, PlanTTL for how long. Default 1024 and 1h.
	PlanCache int           `yaml:"plan_cache" help:"compiled plans kept in memory"`
	PlanTTL   time.Duration `yaml:"plan_ttl" help:"how long a compiled plan is kept in memory"`
	Follow    Follow        `yaml:"follow"`
	// RedisURL is a cache of plans that processes share: redis://, rediss:// or unix://. Default empty: none.
	RedisURL Secret `yaml:"redis_url" help:"Redis that processes share plans through; empty: none"`
	// SecretEnv are the variables that env: references of auth profiles may name: "acme=ACME_*" grants them to documents of tenant acme, an
	// entry without a tenant to documents of the tenant default and to shared ones. The runtime's own variables are never granted. Default
	// "TURNSTONE_SECRET_*".
	SecretEnv []string `yaml:"secret_env" help:"variables that auth profiles may name (NAME, PREFIX*, tenant=PREFIX*)"`
	// SecretFolders are where the file: references of auth profiles may lead: "acme=/etc/secrets/acme", or without a tenant as in SecretEnv,
	// which then may use /run/secrets and /var/run/secrets as well. Default none.
	SecretFolders []string `yaml:"secret_folders" help:"folders that file: references of auth profiles may lead to (/path, tenant=/path)"`
}

// Follow is another installation whose catalog this one takes over.
type Follow struct {
	// URL is its gateway's. Default empty: none.
	URL string `yaml:"url" help:"gateway of the installation whose catalog is followed; empty: none"`
	// Key is an API key or a token that may do catalog.read there for every tenant. Default empty: none is sent.
	Key Secret `yaml:"key" help:"API key or token for it (catalog.read)"`
}

// Jobs is the bridge that takes jobs from Redis.
type Jobs struct {
	// RedisURL is redis://, rediss:// or unix://. Default empty: no bridge.
	RedisURL Secret `yaml:"redis_url" help:"Redis that jobs come from; empty: none"`
	// Queue and ResultPrefix are names of lists: a job's result is pushed to result_prefix:job_id. Default "agent:jobs", "agent:results".
	Queue        string `yaml:"queue" help:"list that jobs are taken from"`
	ResultPrefix string `yaml:"result_prefix" help:"results go to the list PREFIX:JOB_ID"`
	// Tenant owns the turns of all jobs: who may write to this Redis acts for it. Default "default".
	Tenant string `yaml:"tenant" help:"tenant of all jobs"`
	// Approvals is refuse, wait, or names of tools that need no approval, with commas between them: other calls are refused then. Default refuse.
	Approvals string `yaml:"approvals" help:"a call that needs an approval: refuse, wait, or a list of tools that need none"`
	// Concurrency is how many jobs this process has under way. Default 64.
	Concurrency int `yaml:"concurrency" help:"jobs under way at once"`
	// ResultTTL is how long a result waits to be fetched. Default 24h; 0: for ever.
	ResultTTL time.Duration `yaml:"result_ttl" help:"how long a result waits to be fetched; 0: for ever"`
	// DrainTimeout is what jobs under way have to finish after a stop signal, before shutdown_timeout begins. Default 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout" help:"how long jobs under way may finish after a stop signal"`
}

// Egress bounds every request made for a model, or to an address that a catalog document names.
type Egress struct {
	// AllowHosts are "api.example.com" or "*.example.com", either with ":port". Default none: any public host.
	AllowHosts []string `yaml:"allow_hosts" help:"hosts that tools and documents may ask; empty: every public one"`
	// AllowPrivate are private addresses allowed all the same: "10.1.2.3:8080", "name.internal:8080", "10.0.0.0/8[:port]". Default none.
	AllowPrivate []string `yaml:"allow_private" help:"private addresses that tools and documents may ask (host:port or CIDR)"`
	// MaxBytes bounds a response, as sent and as decompressed. Default 32MiB.
	MaxBytes Size `yaml:"max_bytes" help:"largest response"`
	// Timeout bounds one request, redirects included. Default 30s.
	Timeout time.Duration `yaml:"timeout" help:"duration of one request"`
}

// Log is what the process tells its operator.
type Log struct {
	// Level is debug, info, warn or error. Default info.
	Level string `yaml:"level" help:"debug, info, warn or error"`
	// Format is json, or console for people. Default json.
	Format string `yaml:"format" help:"json or console"`
	// PII are the kinds of personal data that are taken out: email, credit_card, ip, mac_address, url. Default email and credit_card.
	// Credentials always are.
	PII []string `yaml:"pii" help:"personal data taken out: email, credit_card, ip, mac_address, url"`
}

// Default is the configuration when nothing is said.
func Default() Config {
	return Config{
		DataDir:         ".turnstone",
		ShutdownTimeout: 30 * time.Second,
		HTTP:            HTTP{Addr: "127.0.0.1:8080", MaxBodyBytes: 8 << 20, ReadHeaderTimeout: 10 * time.Second},
		GRPC:            GRPC{Addr: "127.0.0.1:9090"},
		Gateway:         Gateway{Enabled: true, AuditKeep: 365 * 24 * time.Hour},
		Worker:          Worker{Enabled: true},
		Temporal: Temporal{
			TaskQueue: "turnstone", EagerStart: true, ModelCalls: string(agent.ModelCallsAuto),
			MaxConcurrentActivities: 200, MaxConcurrentLocalActivities: 200, MaxConcurrentWorkflowTasks: 200, OffloadKeep: 90 * 24 * time.Hour,
		},
		Database: Database{MaxConns: 10},
		Storage:  Storage{MaxInlineBytes: 10 << 20, CollectEvery: time.Hour, CollectAfter: time.Hour},
		Events: Events{
			Log: LogPostgres, BatchInterval: 10 * time.Millisecond, FlushInterval: 250 * time.Millisecond, Retention: 168 * time.Hour,
			Relay: EventRelay{Enabled: true},
		},
		Turn: Turn{
			ModelCalls: 25, ToolCalls: 50, WallTime: time.Hour, MaxMessageBytes: 1 << 20, QueueLength: 100,
			OnUnavailable: string(agent.UnavailableWait), BeginWithin: 2 * time.Second, HistoryOutputBytes: 1 << 10, OutputBytes: 64 << 10,
			ProviderWait: 15 * time.Minute, DirectTurns: 256, DirectMax: 2 * time.Minute,
		},
		Conversation: Conversation{ContinueAsNewEvents: 2000},
		LLM:          defaultLLM(),
		Catalog: Catalog{
			Shipped: true, Poll: 5 * time.Second, PlanCache: 1024, PlanTTL: time.Hour, SecretEnv: []string{secretPrefix + "*"},
		},
		Tools: Tools{
			Pipeline:   Pipeline{MaxBytes: 256 << 20, CacheTTL: time.Hour, PromoteAfter: 2},
			Research:   Research{WebProvider: "duckduckgo", MaxWait: 10 * time.Second, SourceTimeout: 20 * time.Second},
			OpenAPI:    OpenAPI{CacheBytes: 64 << 20, MaxResponseBytes: 8 << 20, Freshness: 5 * time.Minute},
			Kubernetes: Kubernetes{Namespace: "default", CPU: "1", Memory: "512Mi", EphemeralStorage: "1Gi", Deadline: 7 * time.Minute, TTL: time.Hour},
		},
		Workflows: Workflows{ReconcileEvery: 5 * time.Minute, SMTP: SMTP{TLS: "starttls"}},
		Jobs: Jobs{
			Queue: "agent:jobs", ResultPrefix: "agent:results", Tenant: agent.DefaultTenant, Approvals: string(agent.ApprovalsRefuse),
			Concurrency: 64, ResultTTL: 24 * time.Hour,
			DrainTimeout: 30 * time.Second,
		},
		Telegram: Telegram{
			Updates: TelegramPolling, APIURL: "https://api.telegram.org", Tenant: agent.DefaultTenant, Approvals: string(agent.ApprovalsWait),
			CopyWebChat: true, EditEvery: time.Second,
		},
		Schedules: Schedules{MaxPerTenant: 100, KeepRuns: 100},
		Retention: Retention{Every: time.Hour, Remember: 720 * time.Hour},
		Console:   Console{Enabled: true},

		Egress: Egress{MaxBytes: 32 << 20, Timeout: 30 * time.Second},

		Log:       Log{Level: "info", Format: "json", PII: []string{"email", "credit_card"}},
		Telemetry: Telemetry{OTLPProtocol: OTLPHTTP, SampleRatio: 1, ServiceName: "turnstone"},
		Metrics:   Metrics{MaxLabelValues: 200},
	}
}

func defaultLLM() LLM { return LLM{Temperature: 0.1, MaxTokens: 4000, TimeoutSec: 120, MaxRetries: 2} }

// StopTimeout bounds a stop: the drain of jobs, where a bridge runs, and then the shutdown.
func (c *Config) StopTimeout() time.Duration {
	if c.Jobs.RedisURL == "" {
		return c.ShutdownTimeout
	}
	return c.Jobs.DrainTimeout + c.ShutdownTimeout
}
