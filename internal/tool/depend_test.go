package tool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// world implements every dependency. Its methods fail.
type world struct{}

func (world) Do(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }

func (world) Open(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.New("no blobs")
}

func (world) Put(context.Context, string, io.Reader) (string, error) {
	return "", errors.New("no blobs")
}

func (world) ListAgents(context.Context, agent.AgentQuery) (agent.AgentPage, error) {
	return agent.AgentPage{}, errors.New("no catalog")
}

// clients returns the gRPC clients "graph" and "bpmn". The client "broken" cannot be made.
func clients(name string) (grpc.ClientConnInterface, error) {
	switch name {
	case "graph", "bpmn":
		return (*grpc.ClientConn)(nil), nil
	case "broken":
		return nil, agent.Invalid("ca_file", "no such file")
	}
	return nil, agent.Errorf(agent.CodeNotFound, "open gRPC client", "none of the name %q", name)
}

func everything() tool.Dependencies {
	return tool.Dependencies{HTTP: world{}, Blobs: world{}, Catalog: world{}, Conn: clients}
}

// grantedTo builds a toolkit with needs and returns the dependencies that its factory got.
func grantedTo(t *testing.T, available tool.Dependencies, needs ...tool.Need) (tool.Dependencies, error) {
	t.Helper()
	var got tool.Dependencies
	_, err := tool.Build(available, tool.Factory{Name: "graph", Needs: needs, New: func(d tool.Dependencies) (agent.Toolkit, error) {
		got = d
		return kit("graph", "query"), nil
	}})
	return got, err
}

func TestBuildGrantsDeclaredNeeds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                      string
		needs                     []tool.Need
		http, blobs, catalog, con bool
	}{
		{name: "nothing"},
		{name: "http", needs: []tool.Need{tool.NeedHTTP}, http: true},
		{name: "blobs", needs: []tool.Need{tool.NeedBlobs}, blobs: true},
		{name: "catalog", needs: []tool.Need{tool.NeedCatalog}, catalog: true},
		{name: "a client", needs: []tool.Need{tool.ConnTo("graph")}, con: true},
		{name: "all", needs: []tool.Need{tool.ConnTo("graph"), tool.NeedHTTP, tool.NeedBlobs, tool.NeedCatalog}, http: true, blobs: true, catalog: true, con: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := grantedTo(t, everything(), tt.needs...)
			require.NoError(t, err)
			require.Equal(t, []bool{tt.http, tt.blobs, tt.catalog, tt.con},
				[]bool{got.HTTP != nil, got.Blobs != nil, got.Catalog != nil, got.Conn != nil})
			require.NotNil(t, got.Logger)
		})
	}
}

func TestBuildRefusesMissingNeeds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		need tool.Need
		says string
	}{
		{tool.NeedHTTP, `toolkits: toolkit "graph" needs outbound HTTP: none is configured`},
		{tool.NeedBlobs, `toolkits: toolkit "graph" needs a blob store: none is configured`},
		{tool.NeedCatalog, `toolkits: toolkit "graph" needs the catalog: none is configured`},
		{tool.ConnTo("graph"), `toolkits: toolkit "graph" needs a gRPC client "graph": none is configured`},
		{"clock", `toolkits: toolkit "graph" has an unknown need "clock"`},
	}
	for _, tt := range tests {
		_, err := grantedTo(t, tool.Dependencies{}, tt.need)
		require.EqualError(t, err, tt.says)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	_, err := grantedTo(t, everything(), tool.ConnTo("element"))
	require.EqualError(t, err, `toolkits: toolkit "graph" needs a gRPC client "element": none is configured`)
	_, err = grantedTo(t, everything(), tool.ConnTo("broken"))
	require.EqualError(t, err, `toolkits: toolkit "graph" needs a gRPC client "broken": ca_file: no such file`)
}

func TestBuildGrantsOnlyDeclaredClients(t *testing.T) {
	t.Parallel()
	got, err := grantedTo(t, everything(), tool.ConnTo("graph"))
	require.NoError(t, err)
	_, err = got.Conn("graph")
	require.NoError(t, err)
	_, err = got.Conn("bpmn")
	require.EqualError(t, err, `use gRPC client: toolkit "graph" did not declare that it needs "bpmn"`)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}

func TestBuildNamesLoggers(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	all := everything()
	all.Logger = zap.New(core)
	got, err := grantedTo(t, all)
	require.NoError(t, err)
	got.Logger.Info("hello")
	require.Equal(t, "graph", logs.All()[0].LoggerName)
}

func TestBuildIndexes(t *testing.T) {
	t.Parallel()
	r, err := tool.Build(everything(), tool.Ready(kit("a", "x")), tool.Ready(kit("b", "x")))
	require.NoError(t, err)
	require.Len(t, r.Toolkits(), 2)
	_, err = tool.Build(everything(), tool.Ready(kit("a")), tool.Ready(kit("a")))
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
}

func TestBuildRefusesFactories(t *testing.T) {
	t.Parallel()
	away := agent.Errorf(agent.CodeUnavailable, "open index", "away")
	makes := func(made agent.Toolkit, err error) func(tool.Dependencies) (agent.Toolkit, error) {
		return func(tool.Dependencies) (agent.Toolkit, error) { return made, err }
	}
	tests := map[string]tool.Factory{
		`toolkit "a" has no constructor`:                            {Name: "a"},
		`make toolkit "a": open index: away`:                        {Name: "a", New: makes(nil, away)},
		`the factory of toolkit "a" made none`:                      {Name: "a", New: makes(nil, nil)},
		`the factory of toolkit "a" made one that calls itself "b"`: {Name: "a", New: makes(kit("b"), nil)},
		`the factory of toolkit "" made none`:                       tool.Ready(nil),
		`toolkit "a" has a tool that is nil`:                        tool.Ready(tool.NewToolkit("a", nil)),
	}
	for says, f := range tests {
		_, err := tool.Build(everything(), f)
		require.ErrorContains(t, err, says)
	}
	_, err := tool.Build(everything(), tests[`make toolkit "a": open index: away`])
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}
