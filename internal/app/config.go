package app

import (
	"net"
	"net/url"
	"reflect"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Config holds all settings. [Load] fills it from turnstone.yaml, the environment and flags, each overriding the one before. A setting is a
// field, and its tags describe it:
//
//   - yaml: its name. The path in YAML (http.addr) also gives the variable (TURNSTONE_HTTP_ADDR) and the flag (--http-addr).
//   - env: a further variable that other tools share.
//   - default, range, oneof, check: its default and what it accepts, as config_rules.go describes.
//   - help: the line that --help and docs/reference/configuration.md show.
//
// A Config is made once at start and not changed afterwards.
type Config struct {
	DataDir         string        `yaml:"data_dir" default:".turnstone" check:"required" help:"folder for local state"`
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"30s" range:"1s..1h" help:"how long work may finish after a stop signal"`
	MinHeap         Size          `yaml:"min_heap" default:"128MiB" range:"0..64GiB" help:"heap below which no garbage is collected; GOGC overrides it"`

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
	// Models have the defaults of LLM, not the values of llm.
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

// HTTP is the REST, SSE and WebSocket door. Port 0 takes a free one.
type HTTP struct {
	Addr string `yaml:"addr" default:"127.0.0.1:8080" check:"address" help:"address of REST, SSE and WebSocket (host:port)"`
	// MaxBodyBytes also bounds a gRPC message.
	MaxBodyBytes Size `yaml:"max_body_bytes" default:"8MiB" range:"1KiB..1GiB" help:"largest request body"`
	// ReadHeaderTimeout bounds the arrival of the headers, and again of the body.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" default:"10s" range:"100ms..10m" help:"how long a client may take to send its request"`
	// AllowedHosts are names without port; "*" allows every one. AllowedOrigins are scheme://host[:port], "*" likewise.
	AllowedHosts   []string `yaml:"allowed_hosts" help:"Host names accepted besides loopback"`
	AllowedOrigins []string `yaml:"allowed_origins" help:"Origins accepted besides loopback"`
	CodecOrigins   []string `yaml:"codec_origins" help:"origins of the Temporal Web UI that may call /codec"`
	TLSCert        string   `yaml:"tls_cert" help:"certificate of HTTP (PEM file); empty: no TLS"`
	TLSKey         string   `yaml:"tls_key" help:"its key (PEM file)"`
}

// LocalURL returns the address of the door for programs on this machine: one that listens everywhere is asked by loopback.
func (h *HTTP) LocalURL() string {
	u := url.URL{Scheme: "http", Host: h.Addr}
	if h.TLSCert != "" {
		u.Scheme = "https"
	}
	if host, port, err := net.SplitHostPort(h.Addr); err == nil {
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			u.Host = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return u.String()
}

// GRPC is the gRPC door. Port 0 takes a free one.
type GRPC struct {
	Addr     string `yaml:"addr" default:"127.0.0.1:9090" check:"address" help:"address of gRPC (host:port)"`
	TLSCert  string `yaml:"tls_cert" help:"certificate of gRPC (PEM file); empty: no TLS"`
	TLSKey   string `yaml:"tls_key" help:"its key (PEM file)"`
	ClientCA string `yaml:"client_ca" help:"who signs client certificates (PEM file); empty: none is asked for"`
}

// Gateway says whether this process serves HTTP and gRPC.
type Gateway struct {
	Enabled bool `yaml:"enabled" default:"true" help:"serve HTTP and gRPC from this process"`
	// DirectChannels are those whose turns run without a workflow where neither the request nor its agent says how.
	DirectChannels []string      `yaml:"direct_channels" help:"channels whose turns are direct unless said otherwise"`
	AuditKeep      time.Duration `yaml:"audit_keep" default:"8760h" range:"0s..876000h" help:"how long the audit trail is kept; 0: for ever"`
}

// Worker says whether this process runs turns. Without it the process is a gateway alone, which needs a worker elsewhere.
type Worker struct {
	Enabled bool `yaml:"enabled" default:"true" help:"run turns and upkeep in this process"`
}

// Temporal holds only our overrides. Address, namespace, API key and TLS come from TEMPORAL_* variables and temporal.toml, as for every
// SDK and for the CLI ([TemporalOptions]).
type Temporal struct {
	Address    string `yaml:"address" env:"TEMPORAL_ADDRESS" help:"Temporal frontend (host:port); empty: the profile's, else 127.0.0.1:7233"`
	Namespace  string `yaml:"namespace" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace; empty: the profile's, else default"`
	Profile    string `yaml:"profile" env:"TEMPORAL_PROFILE" help:"profile in temporal.toml"`
	ConfigFile string `yaml:"config_file" env:"TEMPORAL_CONFIG_FILE" help:"path of temporal.toml"`
	TaskQueue  string `yaml:"task_queue" default:"turnstone" check:"required" help:"task queue of turns and activities"`
	// EagerStart saves a round trip: the worker that starts a turn runs its first task. It is false where the server refuses it.
	EagerStart bool `yaml:"eager_start" default:"true" help:"start turns on this worker without a round trip"`
	// ModelCalls: the Web UI shows normal activities while they run. Local ones cost less than half of the history, but block queries and
	// updates of the turn. Auto is local while nine in ten calls of the model take less than 4 s.
	ModelCalls    string `yaml:"model_calls" default:"auto" oneof:"auto local activity" help:"run model calls as local activities, normal ones, or auto: local where they are short"`
	FailWorkflows bool   `yaml:"fail_workflows" help:"the workflow of a failed turn fails, too, so that Temporal lists it as failed; a turn that another workflow waits for completes"`
	// MessageSummaries: agents with the middleware pii are left out.
	MessageSummaries bool `yaml:"message_summaries" default:"true" help:"show the beginning of a turn's message as its summary in Temporal"`
	// The SDK refuses one concurrent workflow task.
	MaxConcurrentActivities      int `yaml:"max_concurrent_activities" default:"200" range:"1..10000" help:"activities running at once"`
	MaxConcurrentLocalActivities int `yaml:"max_concurrent_local_activities" default:"200" range:"1..10000" help:"local activities running at once"`
	MaxConcurrentWorkflowTasks   int `yaml:"max_concurrent_workflow_tasks" default:"200" range:"2..10000" help:"workflow tasks running at once"`

	WorkerVersioning WorkerVersioning `yaml:"worker_versioning"`

	// EncryptionKeys: the first encrypts, all decrypt.
	EncryptionKeys Secret `yaml:"encryption_keys" help:"id:key,… (32 bytes, base64 or hex) for payloads; the first encrypts; empty: plain"`
	// OffloadBytes is at most half of what Temporal itself takes.
	OffloadBytes Size `yaml:"offload_bytes" range:"0..1MiB" help:"payloads above this are kept in the blob store; 0: none"`
	// OffloadKeep has to be longer than the namespace keeps histories.
	OffloadKeep time.Duration `yaml:"offload_keep" default:"2160h" range:"1h..876000h" help:"how long offloaded payloads are kept"`
}

// WorkerVersioning names this build to Temporal's worker deployments.
type WorkerVersioning struct {
	Deployment string `yaml:"deployment" help:"worker deployment name; empty: not versioned"`
	BuildID    string `yaml:"build_id" help:"build id within the deployment"`
}

// Database is PostgreSQL.
type Database struct {
	// URL may be empty for the embedded stack; a worker needs one.
	URL Secret `yaml:"url" env:"DATABASE_URL" help:"PostgreSQL URL"`
	// MaxConns is at least two: one listens for events, one works.
	MaxConns int `yaml:"max_conns" default:"10" range:"2..1000" help:"most database connections"`
}

// Check refuses a configuration without a database. Without a URL the driver would try a socket of this machine.
func (d Database) Check() error {
	if d.URL == "" {
		return agent.Invalid("database.url", "is empty: set DATABASE_URL, or use the embedded stack (go run ./dev)")
	}
	return nil
}

// Storage says where results are stored.
type Storage struct {
	MaxInlineBytes Size `yaml:"max_inline_bytes" default:"10MiB" range:"1KiB..256MiB" help:"largest result kept in the database"`
	// BlobURL is file://, s3://, gs:// or azblob://. It is a secret because its query may hold credentials.
	BlobURL      Secret        `yaml:"blob_url" help:"bucket URL of the blob store; empty: the folder blobs in data_dir"`
	CollectEvery time.Duration `yaml:"collect_every" default:"1h" range:"0s..720h" help:"how often to remove content that nothing refers to; 0: never"`
	// CollectAfter has to be longer than a tool takes between storing rows and its answer.
	CollectAfter time.Duration `yaml:"collect_after" default:"1h" range:"15m..8760h" help:"how long content stays that nothing refers to"`
}

// LogMemory is the event log of one process only.
const LogMemory = "memory"

// Events is the event log.
type Events struct {
	Log           string        `yaml:"log" default:"postgres" oneof:"postgres memory" help:"postgres, or memory for one process only"`
	BatchInterval time.Duration `yaml:"batch_interval" default:"10ms" range:"1ms..1s" help:"how long tokens gather that follow one another closely; the first is shown at once"`
	FlushInterval time.Duration `yaml:"flush_interval" default:"250ms" range:"10ms..1s" help:"how long events may be shown before they are stored, those of all streams together"`
	Retention     time.Duration `yaml:"retention" default:"168h" range:"1m..87600h" help:"how long a finished stream can be read"`
	Relay         EventRelay    `yaml:"relay"`
}

// EventRelay is how the processes of an installation send each other events before they are stored. It needs the log in PostgreSQL. Without it
// they read each other's streams from the database.
type EventRelay struct {
	Enabled   bool   `yaml:"enabled" default:"true" help:"hand events to other processes before they are stored"`
	Address   string `yaml:"address" help:"where other processes connect, host:port; empty: a free port of the address by which this host reaches PostgreSQL"`
	Advertise string `yaml:"advertise" help:"host, or host:port, by which others reach that; empty: as it is"`
}

// Turn holds the ceilings of one turn. A plan or request can only lower the limits.
type Turn struct {
	// Iterations counts the rounds of the loop: an answer of the model, and the tools that it asks for.
	Iterations int `yaml:"iterations" range:"0..10000" help:"rounds of model and tools in one turn; 0: no bound"`
	// ModelCalls counts retries too.
	ModelCalls int `yaml:"model_calls" default:"25" range:"0..10000" help:"model calls of one turn; 0: no bound"`
	ToolCalls  int `yaml:"tool_calls" default:"50" range:"0..100000" help:"tool calls of one turn; 0: no bound"`
	// WallTime is in whole seconds.
	WallTime        time.Duration `yaml:"wall_time" default:"1h" range:"0s..8760h" help:"duration of one turn without human pauses; 0: no bound"`
	Tokens          int64         `yaml:"tokens" range:"0..9223372036854775807" help:"input and output tokens of one turn; 0: no bound"`
	CostUSD         float64       `yaml:"cost_usd" range:"0..1e9" help:"cost of one turn in USD; 0: no bound"`
	MaxMessageBytes Size          `yaml:"max_message_bytes" default:"1MiB" range:"1..1GiB" help:"largest message of a request"`
	QueueLength     int           `yaml:"queue_length" default:"100" range:"1..100000" help:"turns waiting in one session"`
	OnUnavailable   string        `yaml:"on_unavailable" default:"wait" oneof:"wait refuse run" help:"a call that needs an approval while approvals cannot be reached: wait, refuse or run"`
	// ProviderWait counts as wall time.
	ProviderWait time.Duration `yaml:"provider_wait" default:"15m" range:"0s..24h" help:"how long a turn waits in all for a model provider that is away or busy; 0: it fails at once"`
	DirectTurns  int           `yaml:"direct_turns" default:"1024" range:"1..100000" help:"direct turns that one process runs at the same time; one too many runs as a workflow"`
	DirectMax    time.Duration `yaml:"direct_max" default:"2m" range:"0s..24h" help:"a direct turn that lasts longer goes on as a workflow before its next step; 0: none does"`
	BeginWithin  time.Duration `yaml:"begin_within" default:"2s" range:"0s..1h" help:"time within which accepted turns begin; more turns are refused; 0: none is"`
	// HistoryOutputBytes leaves room beside the output: Temporal takes payloads of up to 2 MB.
	HistoryOutputBytes Size `yaml:"history_output_bytes" default:"1KiB" range:"1..1MiB" help:"output kept in workflow history"`
	OutputBytes        Size `yaml:"output_bytes" default:"64KiB" range:"1..64MiB" help:"output in an answer of the API"`
	// ContinueAsNewEvents: a run ends at 51,200 events, and the workflow finishes what is open before it continues.
	ContinueAsNewEvents int `yaml:"continue_as_new_events" range:"0|20..40000" help:"history events before a turn continues as new; 0: the server's suggestion"`
}

// Limits returns the ceilings that a plan starts from.
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
	ContinueAsNewEvents int `yaml:"continue_as_new_events" default:"2000" range:"20..40000" help:"history events before a conversation continues as new"`
}

// Model providers that this package treats specially. docs/reference/models.md lists all of them.
const (
	ProviderOpenAI    = "openai" // also everything compatible with it, by base_url
	ProviderAnthropic = "anthropic"
	ProviderOllama    = "ollama"
	ProviderOffline   = "offline" // the deterministic model of the embedded stack
	// ProviderAuto is by the key that is set, and without one the offline model. [Load] replaces it.
	ProviderAuto = "auto"
)

// LLM is a model profile: which model answers, and how. The one under llm is the default profile. [Load] fills in provider, model and key
// by what is in the environment.
type LLM struct {
	Provider    string  `yaml:"provider" help:"who runs the model (models.md has the names); empty: by the key that is set; auto: that, and without a key a script"`
	Model       string  `yaml:"model" help:"model name; empty: gpt-4o for openai, claude-sonnet-5-5 for anthropic"`
	BaseURL     string  `yaml:"base_url" help:"API of the provider; empty: its own"`
	APIKey      Secret  `yaml:"api_key" check:"key" help:"API key; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, by provider"`
	Temperature float64 `yaml:"temperature" default:"0.1" range:"0..2" help:"sampling temperature, 0 to 2"`
	MaxTokens   int     `yaml:"max_tokens" default:"4000" range:"1..1000000" help:"tokens of one reply"`
	// TimeoutSec bounds the time between two bytes, not that of a call.
	TimeoutSec int `yaml:"timeout_sec" default:"120" range:"1..3600" help:"longest silence of the provider in seconds"`
	// MaxRetries is the default of the middleware model_retry, and holds for agents without that middleware. The clients of providers do not retry
	// by themselves. The value of the section llm is also the default of model profiles in the catalog.
	MaxRetries    int     `yaml:"max_retries" default:"2" range:"0..10" help:"retries of a failed model call, where model_retry of an agent does not say; 0: none"`
	InputPerMTok  float64 `yaml:"input_per_mtok" range:"0..1e6" help:"USD per million input tokens"`
	CachedPerMTok float64 `yaml:"cached_per_mtok" range:"0..1e6" help:"USD per million cached input tokens"`
	OutputPerMTok float64 `yaml:"output_per_mtok" range:"0..1e6" help:"USD per million output tokens"`
}

// Model is a further model profile.
type Model struct {
	// Name is 1 to 64 of [A-Za-z0-9._-], not "default", each once.
	Name string `yaml:"name" help:"name of the profile"`
	LLM  `yaml:",inline"`
}

// Catalog says where agents, tools, models and routes come from.
type Catalog struct {
	// Folder is for development: its *.yaml, *.yml and *.json files are watched and applied.
	Folder string `yaml:"folder" help:"folder of catalog documents to watch and apply; empty: none"`
	// Shipped documents are the analyst and the route to it.
	Shipped   bool          `yaml:"shipped" default:"true" help:"serve the documents that come with the product"`
	Poll      time.Duration `yaml:"poll" default:"5s" range:"100ms..1h" help:"how often to look for changes that no notification told"`
	PlanCache int           `yaml:"plan_cache" default:"1024" range:"1..1000000" help:"compiled plans kept in memory"`
	PlanTTL   time.Duration `yaml:"plan_ttl" default:"1h" range:"1s..720h" help:"how long a compiled plan is kept in memory"`
	Follow    Follow        `yaml:"follow"`
	RedisURL  Secret        `yaml:"redis_url" check:"redis" help:"Redis that processes share plans through; empty: none"`
	// SecretEnv: "acme=ACME_*" grants variables to documents of tenant acme, an entry without a tenant to documents of the tenant default
	// and to shared ones. The runtime's own variables are never granted.
	SecretEnv []string `yaml:"secret_env" default:"TURNSTONE_SECRET_*" help:"variables that auth profiles may name (NAME, PREFIX*, tenant=PREFIX*)"`
	// SecretFolders: an entry without a tenant also grants /run/secrets and /var/run/secrets.
	SecretFolders []string `yaml:"secret_folders" help:"folders that file: references of auth profiles may lead to (/path, tenant=/path)"`
}

// Follow is another installation whose catalog this one takes over. The key may do catalog.read there for every tenant.
type Follow struct {
	URL string `yaml:"url" check:"url" help:"gateway of the installation whose catalog is followed; empty: none"`
	Key Secret `yaml:"key" help:"API key or token for it (catalog.read)"`
}

// Jobs is the bridge that takes jobs from Redis. Whoever may write to this Redis acts for the tenant.
type Jobs struct {
	RedisURL     Secret        `yaml:"redis_url" check:"redis" help:"Redis that jobs come from; empty: none"`
	Queue        string        `yaml:"queue" default:"agent:jobs" check:"required" help:"list that jobs are taken from"`
	ResultPrefix string        `yaml:"result_prefix" default:"agent:results" check:"required" help:"results go to the list PREFIX:JOB_ID"`
	Tenant       string        `yaml:"tenant" default:"default" check:"name" help:"tenant of all jobs"`
	Approvals    string        `yaml:"approvals" default:"refuse" check:"approvals" help:"a call that needs an approval: refuse, wait, or a list of tools that need none"`
	Concurrency  int           `yaml:"concurrency" default:"64" range:"1..10000" help:"jobs under way at once"`
	ResultTTL    time.Duration `yaml:"result_ttl" default:"24h" range:"0s..8760h" help:"how long a result waits to be fetched; 0: for ever"`
	// DrainTimeout ends before shutdown_timeout begins.
	DrainTimeout time.Duration `yaml:"drain_timeout" default:"30s" range:"1s..1h" help:"how long jobs under way may finish after a stop signal"`
}

// Egress bounds every request made for a model, or to an address that a catalog document names.
type Egress struct {
	AllowHosts   []string `yaml:"allow_hosts" help:"hosts that tools and documents may ask; empty: every public one"`
	AllowPrivate []string `yaml:"allow_private" help:"private addresses that tools and documents may ask (host:port or CIDR)"`
	// MaxBytes bounds a response as sent, and as decompressed.
	MaxBytes Size          `yaml:"max_bytes" default:"32MiB" range:"1KiB..1GiB" help:"largest response"`
	Timeout  time.Duration `yaml:"timeout" default:"30s" range:"1ms..1h" help:"duration of one request"`
}

// Log is the process's log. Credentials are always taken out of it.
type Log struct {
	Level  string   `yaml:"level" default:"info" oneof:"debug info warn error" help:"debug, info, warn or error"`
	Format string   `yaml:"format" default:"json" oneof:"json console" help:"json or console"`
	PII    []string `yaml:"pii" default:"email,credit_card" help:"personal data taken out: email, credit_card, ip, mac_address, url"`
}

// Default returns the configuration without a file, variables and flags.
func Default() Config {
	var cfg Config
	setDefaults(reflect.ValueOf(&cfg).Elem())
	return cfg
}

// StopTimeout bounds a stop: the drain of jobs, where a bridge runs, and then the shutdown.
func (c *Config) StopTimeout() time.Duration {
	if c.Jobs.RedisURL == "" {
		return c.ShutdownTimeout
	}
	return c.Jobs.DrainTimeout + c.ShutdownTimeout
}
