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

// HTTP sends a request within the bounds of the egress rules. Its errors are [agent.Error] values: denied, invalid and
// overflow are for good, unavailable may be tried again.
type HTTP interface {
	Do(req *http.Request) (*http.Response, error)
}

// Blobs keeps a tenant's content under references such as cas://sha256:<hex>. The tenant is the invocation's, never an argument that
// a model gave.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
}

// Datasets opens rows by reference: cas://sha256:<hex> of the tenant's content, or artifact://<result id> for the rows of a stored
// result. What it yields is a JSON array of rows, or, for content that no tool has made, whatever JSON it is. Errors as those of [Blobs].
type Datasets interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Results remembers what calls have answered, for all processes. The tenant is the invocation's.
type Results interface {
	// Recall returns what was remembered under a key, ok false when nothing is, or it is too old, or its dataset is gone.
	Recall(ctx context.Context, tenant, key string) (r CachedResult, ok bool, err error)
	// Remember keeps a result for a time; the dataset that it names is kept as long.
	Remember(ctx context.Context, tenant, key string, r CachedResult, ttl time.Duration) error
}

// CachedResult is a remembered answer.
type CachedResult struct {
	Dataset agent.Dataset   `json:"dataset"`
	Preview json.RawMessage `json:"preview"`
	Report  json.RawMessage `json:"report"` // the tool's own: what its steps did
}

// Auth puts credentials into requests.
type Auth interface {
	// Authorise adds to a request what the first of the profiles that may be sent to its host says; without one the request stays as it is.
	// [agent.CodeDenied] when a secret cannot be had. No error and no log names a secret.
	Authorise(req *http.Request, profiles []agent.PlanAuth) error
}

// ServerAuth is an [Auth] for the requests to one server, which says itself where its tokens are issued (RFC 9728).
type ServerAuth interface {
	Auth
	// Discover finds out after a 401 where a token for the server is issued. again reports whether the request is worth sending once more: it
	// was sent without a token, or with one that is replaced now. Errors are those of Authorise.
	Discover(sent *http.Request, answer *http.Response, profiles []agent.PlanAuth) (again bool, err error)
}

// ServerAuthoriser makes the [ServerAuth] of a server. An [Auth] that is none authorises the requests to servers as any other.
type ServerAuthoriser interface {
	ForServer(endpoint *url.URL) ServerAuth
}

// Catalog tells which agents a tenant may name.
type Catalog interface {
	ListAgents(ctx context.Context, query agent.AgentQuery) (agent.AgentPage, error)
}

// Workflows are the definitions of a tenant's workflows, here or at an orchestrator.
type Workflows interface {
	// PatchWorkflow changes one. Errors name the operation or the place: [agent.CodeInvalid], [agent.CodeConflict] for a version that is
	// no longer the newest, [agent.CodeNotFound] with Field "workflow_tag".
	PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error)
	// ListWorkflows lists the newest versions.
	ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
}

// Composites keeps what was made of repeated pipelines, for all processes.
type Composites interface {
	// UsePipeline counts a call once and says what is known of its shape.
	UsePipeline(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error)
	// SaveComposite stores what a shape was promoted to, or a change of its parameters and pipeline. A name that is taken gets a number
	// behind it; a person's name, description and switch stay. It answers what is stored.
	SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error)
	// Composites lists those of a tenant by name, disabled ones included.
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	// Composite returns one version by id; [agent.CodeNotFound].
	Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error)
}

// References keeps the sources that a conversation has found, each once and numbered.
type References interface {
	// AddReferences keeps what is new and answers all of refs with their numbers. A source is the same when a key or an alias is.
	AddReferences(ctx context.Context, tenant string, s agent.SessionID, refs []agent.Reference) ([]agent.Reference, error)
	// References lists them by number.
	References(ctx context.Context, tenant string, s agent.SessionID) ([]agent.Reference, error)
}

// Ranking finds documents by words, as a full-text search does.
type Ranking interface {
	// Rank returns the documents that have any of the query's words, the best first, at most n. Words of the title count more.
	Rank(ctx context.Context, query string, docs []RankedText, n int) ([]Ranked, error)
}

// RankedText is a document to rank.
type RankedText struct {
	Title string
	Body  string
}

// Ranked is a document that was found.
type Ranked struct {
	Index int // in what was given
	Score float64
}

// Dependencies is what a toolkit may be given. A factory gets exactly what it asked for and the
// logger; the rest is nil.
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
	// Conn returns the gRPC client of a name. A toolkit that asks for one that it did not declare is answered with [agent.CodeDenied].
	Conn   func(name string) (grpc.ClientConnInterface, error)
	Logger *zap.Logger // never nil in a factory, and named after the toolkit
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

// connPrefix begins the need of a gRPC client.
const connPrefix = "conn:"

// ConnTo is the need of the gRPC client that the configuration has under a name.
func ConnTo(name string) Need { return Need(connPrefix + name) }

// Factory makes a toolkit out of what it needs.
type Factory struct {
	Name  string // the toolkit's
	Needs []Need
	New   func(d Dependencies) (agent.Toolkit, error)
}

// Ready is the factory of a toolkit that was made already and needs nothing.
func Ready(kit agent.Toolkit) Factory {
	f := Factory{New: func(Dependencies) (agent.Toolkit, error) { return kit, nil }}
	if kit != nil {
		f.Name = kit.Name()
	}
	return f
}

// Build makes the toolkits, each with what it declared, and indexes them as [NewRegistry] does. A need that is not available is
// refused with [agent.CodeInvalid] and the names of toolkit and need: a process without it must not start. Of gRPC clients it opens
// those that are needed; they connect with their first call.
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
	given, err := f.grant(available)
	if err != nil {
		return nil, err
	}
	kit, err := f.New(given)
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

// grant returns the dependencies that the factory declared.
func (f *Factory) grant(available Dependencies) (Dependencies, error) {
	var given Dependencies
	given.Logger = zap.NewNop()
	if available.Logger != nil {
		given.Logger = available.Logger.Named(f.Name)
	}
	var clients []string
	for _, need := range f.Needs {
		if name, isConn := strings.CutPrefix(string(need), connPrefix); isConn {
			if err := f.checkConn(available, name); err != nil {
				return given, err
			}
			clients = append(clients, name)
			continue
		}
		d, known := dependencies()[need]
		if !known {
			return given, agent.Invalid("toolkits", "toolkit %q has an unknown need %q", f.Name, need)
		}
		if !d.give(&given, &available) {
			return given, agent.Invalid("toolkits", "toolkit %q needs %s: none is configured", f.Name, d.title)
		}
	}
	if len(clients) > 0 {
		given.Conn = f.restrictClients(clients, available.Conn)
	}
	return given, nil
}

// dependency is what meets a need. Its give copies it, and returns false if there is none.
type dependency struct {
	title string // for people
	give  func(to, from *Dependencies) bool
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
