package tool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
)

// HTTP sends a request within the bounds of the egress rules (DESIGN §7). Its errors are [agent.Error] values: denied, invalid and
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

// Catalog tells which agents a tenant may name.
type Catalog interface {
	ListAgents(ctx context.Context, query agent.AgentQuery) (agent.AgentPage, error)
}

// Dependencies is what a toolkit may be given (seed 000 §5.5, ToolDependencies). A factory gets exactly what it asked for and the
// logger; the rest is nil.
type Dependencies struct {
	HTTP    HTTP
	Blobs   Blobs
	Catalog Catalog
	// Conn returns the gRPC client of a name. A toolkit that asks for one that it did not declare is answered with [agent.CodeDenied].
	Conn   func(name string) (grpc.ClientConnInterface, error)
	Logger *zap.Logger // never nil in a factory, and named after the toolkit
}

// Need is a dependency that a factory declares: one of the constants, or [ConnTo] a named gRPC client.
type Need string

// The needs besides gRPC clients.
const (
	NeedHTTP    Need = "http"
	NeedBlobs   Need = "blobs"
	NeedCatalog Need = "catalog"
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

// grant picks what the factory declared.
func (f *Factory) grant(available Dependencies) (Dependencies, error) {
	var given Dependencies
	given.Logger = zap.NewNop()
	if available.Logger != nil {
		given.Logger = available.Logger.Named(f.Name)
	}
	var clients []string
	for _, need := range f.Needs {
		missing := ""
		switch name, isConn := strings.CutPrefix(string(need), connPrefix); {
		case isConn:
			if err := f.checkConn(available, name); err != nil {
				return given, err
			}
			clients = append(clients, name)
		case need == NeedHTTP:
			if given.HTTP = available.HTTP; given.HTTP == nil {
				missing = "outbound HTTP"
			}
		case need == NeedBlobs:
			if given.Blobs = available.Blobs; given.Blobs == nil {
				missing = "a blob store"
			}
		case need == NeedCatalog:
			if given.Catalog = available.Catalog; given.Catalog == nil {
				missing = "the catalog"
			}
		default:
			return given, agent.Invalid("toolkits", "toolkit %q has an unknown need %q", f.Name, need)
		}
		if missing != "" {
			return given, agent.Invalid("toolkits", "toolkit %q needs %s: none is configured", f.Name, missing)
		}
	}
	if len(clients) > 0 {
		given.Conn = f.only(clients, available.Conn)
	}
	return given, nil
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

// only refuses clients that were not declared: what a toolkit can reach is what its factory says.
func (f *Factory) only(
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
