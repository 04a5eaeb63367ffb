package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
)

// HTTP sends a request if the egress rules allow it. Its errors are [agent.Error] values: denied, invalid and overflow are permanent;
// unavailable may be tried again.
type HTTP interface {
	Do(req *http.Request) (*http.Response, error)
}

// Blobs stores a tenant's content under references such as cas://sha256:<hex>. The tenant must be that of the invocation, never an argument
// from a model.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
}

// Datasets opens rows by reference: cas://sha256:<hex> for the tenant's content, or artifact://<result id> for the rows of a stored result. The
// content is a JSON array of rows if a tool has made it, otherwise any JSON. Errors are those of [Blobs].
type Datasets interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Results caches the results of calls for all processes. The tenant is that of the invocation.
type Results interface {
	// Recall returns the result of a key. ok is false if there is none, it has expired, or its dataset is gone.
	Recall(ctx context.Context, tenant, key string) (r CachedResult, ok bool, err error)
	// Remember caches a result for a time. Its dataset is kept at least as long.
	Remember(ctx context.Context, tenant, key string, r CachedResult, ttl time.Duration) error
}

// CachedResult is a result in the cache.
type CachedResult struct {
	Dataset agent.Dataset   `json:"dataset"`
	Preview json.RawMessage `json:"preview"`
	Report  json.RawMessage `json:"report"` // in a form of the tool: what its steps did
}

// Auth adds credentials to requests.
type Auth interface {
	// Authorise adds the credentials of the first profile that may be sent to the request's host. Without such a profile, the request does not
	// change. The error is [agent.CodeDenied] if a secret is not available. Errors and logs never contain a secret.
	Authorise(req *http.Request, profiles []agent.PlanAuth) error
}

// ServerAuth is an [Auth] for the requests to one server, which names the issuer of its tokens itself (RFC 9728).
type ServerAuth interface {
	Auth
	// Discover finds the issuer of the server's tokens after a 401. again reports whether the request should be sent once more, because it was
	// sent without a token or with one that is now replaced. Errors are those of Authorise.
	Discover(sent *http.Request, answer *http.Response, profiles []agent.PlanAuth) (again bool, err error)
}

// ServerAuthoriser is an [Auth] that can discover the issuers of a server's tokens.
type ServerAuthoriser interface {
	ForServer(endpoint *url.URL) ServerAuth
}

// Catalog lists the agents of a tenant.
type Catalog interface {
	ListAgents(ctx context.Context, query agent.AgentQuery) (agent.AgentPage, error)
}

// Workflows stores the workflow definitions of tenants, in this runtime or in an orchestrator.
type Workflows interface {
	// PatchWorkflow changes a definition. Its errors name the operation or its path: [agent.CodeInvalid], [agent.CodeConflict] for a base
	// version that is not the newest, [agent.CodeNotFound] with Field "workflow_tag".
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// ListWorkflows returns the newest versions.
	ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
}

// Composites stores the tools that repeated pipelines were promoted to, for all processes.
type Composites interface {
	// UsePipeline counts the use of a pipeline, once per call. It returns the uses, samples and composite of the pipeline's shape.
	UsePipeline(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error)
	// SaveComposite stores the first version of a composite, or the next one. If its name is taken, it gets a number as suffix. A name,
	// description or switch that a person has set stays. SaveComposite returns the stored composite.
	SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error)
	// Composites returns the composites of a tenant by name, including disabled ones.
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	// Composite returns a version of a composite. The error is [agent.CodeNotFound] if there is none.
	Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error)
}

// References stores the sources that a conversation has found, each once and with a number.
type References interface {
	// AddReferences stores new sources and returns all of refs with their numbers. Sources that share a key or an alias are the same.
	AddReferences(ctx context.Context, tenant string, s agent.SessionID, refs []agent.Reference) ([]agent.Reference, error)
	// References returns the sources of a conversation by number.
	References(ctx context.Context, tenant string, s agent.SessionID) ([]agent.Reference, error)
}

// Ranking is a full-text search in given documents.
type Ranking interface {
	// Rank returns at most n documents that have any word of the query, the best first. Words of the title count more.
	Rank(ctx context.Context, query string, docs []RankedText, n int) ([]Ranked, error)
}

// RankedText is a document to rank.
type RankedText struct {
	Title string
	Body  string
}

// Ranked is a document that was found.
type Ranked struct {
	Index int // in the given documents
	Score float64
}

// Dependencies are the dependencies of toolkits. A factory gets those that it has declared, and the logger; all others are nil.
type Dependencies struct {
	HTTP     HTTP
	Auth     Auth
	Blobs    Blobs
	Datasets Datasets
	Results  Results
	Catalog  Catalog

	Workflows  Workflows
	Composites Composites
	References References
	Ranking    Ranking
	// Conn returns a gRPC client by name. The error is [agent.CodeDenied] for a client that the toolkit has not declared.
	Conn   func(name string) (grpc.ClientConnInterface, error)
	Logger *zap.Logger // named after the toolkit; never nil in a factory
}

// Need is a dependency that a factory declares: one of the constants, or [ConnTo] a named gRPC client.
type Need string

// The needs besides gRPC clients.
const (
	NeedHTTP     Need = "http"
	NeedAuth     Need = "auth"
	NeedBlobs    Need = "blobs"
	NeedDatasets Need = "datasets"
	NeedResults  Need = "results"
	NeedCatalog  Need = "catalog"

	NeedWorkflows  Need = "workflows"
	NeedComposites Need = "composites"
	NeedReferences Need = "references"
	NeedRanking    Need = "ranking"
)

// connPrefix is the prefix of the need for a gRPC client.
const connPrefix = "conn:"

// ConnTo returns the need for the gRPC client that has a name in the configuration.
func ConnTo(name string) Need { return Need(connPrefix + name) }

// Factory makes a toolkit with the dependencies that it needs.
type Factory struct {
	Name  string // of the toolkit
	Needs []Need
	New   func(d Dependencies) (agent.Toolkit, error)
}

// Ready returns the factory of an existing toolkit, which needs nothing.
func Ready(kit agent.Toolkit) Factory {
	f := Factory{New: func(Dependencies) (agent.Toolkit, error) { return kit, nil }}
	if kit != nil {
		f.Name = kit.Name()
	}
	return f
}

// Build makes the toolkits with the dependencies that they need, and returns their registry. A need that is not available is
// [agent.CodeInvalid], so that the process does not start; the error names the toolkit and the need. gRPC clients connect with their first call.
func Build(available Dependencies, factories ...Factory) (*Registry, error) {
	kits := make([]agent.Toolkit, 0, len(factories))
	for _, f := range factories {
		kit, err := f.make(available)
		if err != nil {
			return nil, err
		}
		kits = append(kits, kit)
	}
	return NewRegistry(kits...)
}

func (f *Factory) make(available Dependencies) (agent.Toolkit, error) {
	if f.New == nil {
		return nil, agent.Invalid("toolkits", "toolkit %q has no constructor", f.Name)
	}
	granted, err := f.grant(available)
	if err != nil {
		return nil, err
	}
	kit, err := f.New(granted)
	switch {
	case err != nil:
		return nil, fmt.Errorf("make toolkit %q: %w", f.Name, err)
	case kit == nil:
		return nil, agent.Errorf(agent.CodeInternal, "make toolkits", "the factory of toolkit %q made none", f.Name)
	case kit.Name() != f.Name:
		return nil, agent.Invalid("toolkits", "the factory of toolkit %q made one that calls itself %q", f.Name, kit.Name())
	}
	return kit, nil
}

// grant returns the available dependencies that the factory has declared.
func (f *Factory) grant(available Dependencies) (Dependencies, error) {
	granted := Dependencies{Logger: zap.NewNop()}
	if available.Logger != nil {
		granted.Logger = available.Logger.Named(f.Name)
	}
	var clients []string
	for _, need := range f.Needs {
		if name, isConn := strings.CutPrefix(string(need), connPrefix); isConn {
			if err := f.checkConn(available, name); err != nil {
				return granted, err
			}
			clients = append(clients, name)
			continue
		}
		d, ok := dependencies()[need]
		if !ok {
			return granted, agent.Invalid("toolkits", "toolkit %q has an unknown need %q", f.Name, need)
		}
		if !d.grant(&granted, &available) {
			return granted, agent.Invalid("toolkits", "toolkit %q needs %s: none is configured", f.Name, d.title)
		}
	}
	if len(clients) > 0 {
		granted.Conn = f.restrictClients(clients, available.Conn)
	}
	return granted, nil
}

// dependency is the dependency of a need.
type dependency struct {
	title string                            // for people
	grant func(to, from *Dependencies) bool // copies the dependency; false if it is not available
}

func dependencies() map[Need]dependency {
	return map[Need]dependency{
		NeedHTTP:       {"outbound HTTP", func(to, from *Dependencies) bool { to.HTTP = from.HTTP; return to.HTTP != nil }},
		NeedAuth:       {"auth profiles", func(to, from *Dependencies) bool { to.Auth = from.Auth; return to.Auth != nil }},
		NeedBlobs:      {"a blob store", func(to, from *Dependencies) bool { to.Blobs = from.Blobs; return to.Blobs != nil }},
		NeedDatasets:   {"datasets", func(to, from *Dependencies) bool { to.Datasets = from.Datasets; return to.Datasets != nil }},
		NeedResults:    {"a result cache", func(to, from *Dependencies) bool { to.Results = from.Results; return to.Results != nil }},
		NeedCatalog:    {"the catalog", func(to, from *Dependencies) bool { to.Catalog = from.Catalog; return to.Catalog != nil }},
		NeedWorkflows:  {"workflow definitions", func(to, from *Dependencies) bool { to.Workflows = from.Workflows; return to.Workflows != nil }},
		NeedComposites: {"composite tools", func(to, from *Dependencies) bool { to.Composites = from.Composites; return to.Composites != nil }},
		NeedReferences: {"references", func(to, from *Dependencies) bool { to.References = from.References; return to.References != nil }},
		NeedRanking:    {"full-text ranking", func(to, from *Dependencies) bool { to.Ranking = from.Ranking; return to.Ranking != nil }},
	}
}

func (f *Factory) checkConn(available Dependencies, name string) error {
	if available.Conn == nil {
		return agent.Invalid("toolkits", "toolkit %q needs a gRPC client %q: none is configured", f.Name, name)
	}
	_, err := available.Conn(name)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return agent.Invalid("toolkits", "toolkit %q needs a gRPC client %q: none is configured", f.Name, name)
	case err != nil:
		return agent.Invalid("toolkits", "toolkit %q needs a gRPC client %q: %w", f.Name, name, err)
	}
	return nil
}

// restrictClients returns conn without the clients that the factory did not declare.
func (f *Factory) restrictClients(
	declared []string, conn func(string) (grpc.ClientConnInterface, error),
) func(string) (grpc.ClientConnInterface, error) {
	toolkit := f.Name
	return func(name string) (grpc.ClientConnInterface, error) {
		if !slices.Contains(declared, name) {
			return nil, agent.Errorf(agent.CodeDenied, "use gRPC client", "toolkit %q did not declare that it needs %q", toolkit, name)
		}
		return conn(name)
	}
}
