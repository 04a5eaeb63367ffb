package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// scopesAuth accepts the bearer token tenant|scope,scope as a credential with these scopes.
type scopesAuth struct{}

func (scopesAuth) Authenticate(_ context.Context, c access.Credentials) (agent.Principal, error) {
	tenant, scopes, ok := strings.Cut(c.Bearer, "|")
	if !ok {
		return agent.Principal{}, access.Refused("no")
	}
	return agent.Principal{Method: agent.MethodKey, Tenant: tenant, Scopes: strings.Split(scopes, ",")}, nil
}

// healthyPort reports that all is well.
type healthyPort struct{}

func (healthyPort) Health(context.Context) Health { return Health{OK: true} }

// Types for embedding ports that have a method of the same name as the port.
type (
	approvalsPort  = Approvals
	knowledgePort  = Knowledge
	workflowsPort  = Workflows
	compositesPort = Composites
	documentsPort  = Documents
	doctorPort     = Doctor
	linksPort      = Links
	usagePort      = Usage
)

// panickingPorts panic if a refused call reaches them.
type panickingPorts struct {
	Turns
	Results
	Sessions
	Finder
	approvalsPort
	knowledgePort
	workflowsPort
	WorkflowRuns
	compositesPort
	Agents
	documentsPort
	doctorPort
	Keys
	SchedulePlans
	linksPort
	usagePort
}

// discardingAudit drops records.
type discardingAudit struct{ Audit }

func (discardingAudit) Record(agent.AuditRecord) {}

// storingCodec is a codec that may store payloads outside the history.
type storingCodec struct{ Codec }

func (storingCodec) Stores() bool { return true }

// newTestGateway returns a gateway with all ports.
func newTestGateway(t *testing.T) *Gateway {
	t.Helper()
	p := panickingPorts{}
	g, err := New(Config{
		HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0", Auth: scopesAuth{}, Metrics: http.NotFoundHandler(),
		Ports: Ports{
			Turns: p, Results: p, Sessions: p, Approvals: p, Knowledge: p, Workflows: p, Runs: p, Composites: p, Agents: p, Documents: p, Doctor: p,
			Finder: p, Health: healthyPort{}, Keys: p, Audit: discardingAudit{}, Schedules: struct{ Schedules }{}, SchedulePlans: p, Links: p, Usage: p,
			Retention: struct{ Retention }{}, Erasures: struct{ Erasures }{}, Codec: storingCodec{},
		},
	})
	require.NoError(t, err)
	return g
}

// TestEveryPathHasARequirement checks that no path accepts a caller without a credential, or with a credential that allows nothing.
func TestEveryPathHasARequirement(t *testing.T) {
	g := newTestGateway(t)
	s, ok := g.http.Handler.(*httpServer)
	require.True(t, ok)
	require.Greater(t, len(s.paths), 30)
	var open []string
	for path, m := range s.paths {
		for method, e := range m {
			route := method + " " + path
			required := e.required
			switch {
			case required.public || required.anyCredential:
				open = append(open, route)
				require.Empty(t, required.actions, route)
			default:
				require.NotEmpty(t, required.actions, "%s has no requirement", route)
			}
			for _, a := range required.actions {
				require.Contains(t, agent.Actions(), a, route)
			}
			try := func(credential string) int {
				r := httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "", "...", "").Replace(path), strings.NewReader("{}"))
				if credential != "" {
					r.Header.Set("Authorization", "Bearer "+credential)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w.Code
			}
			if required.public {
				require.Equal(t, 200, try(""), route)
				continue
			}
			require.Equal(t, 401, try(""), route)
			require.Equal(t, 401, try("wrong"), route)
			if !required.anyCredential {
				require.Equal(t, 403, try("acme|nothing.at.all"), route)
			}
			for _, a := range required.actions { // a scope with a resource allows no action without resources
				if !access.Confinable(a) {
					require.Equal(t, 403, try("acme|"+string(a)+":x,*:x"), route)
					require.Equal(t, 403, try("*|"+string(a)+":x"), route)
				}
			}
			for _, a := range agent.Actions() { // other actions are not enough
				if required.actions != nil && !strings.Contains(joinActions(required.actions), string(a)) {
					require.Equal(t, 403, try("acme|"+string(a)), "%s with %s", route, a)
				}
			}
		}
	}
	sort.Strings(open)
	require.Equal(t, []string{"GET /health", "GET /v1/whoami"}, open)
}

// Every path refuses an unknown parameter and names it, except the paths that people and probes call with any parameters.
func TestEveryPathRefusesUnknownParameters(t *testing.T) {
	g := newTestGateway(t)
	s, ok := g.http.Handler.(*httpServer)
	require.True(t, ok)
	for path, m := range s.paths {
		if path == pathHealth || path == pathMetrics || strings.HasPrefix(path, pathCodec) {
			continue
		}
		for method := range m {
			target := strings.NewReplacer("{collection}", "docs", "{tag}", map[bool]string{true: "x:run", false: "x"}[method == http.MethodPost],
				"{", "", "}", "", "...", "").Replace(path)
			for body, media := range map[string]string{"": "", "{}": "application/json"} {
				r := httptest.NewRequest(method, target+"?no_such_parameter=1", strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer *|*")
				r.Header.Set("Content-Type", media)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code == http.StatusUnsupportedMediaType {
					continue
				}
				require.Equal(t, 400, w.Code, "%s %s: %s", method, path, w.Body)
				require.Contains(t, w.Body.String(), "no_such_parameter: is no parameter of this path", "%s %s", method, path)
				require.Contains(t, w.Body.String(), ": it takes ", "%s %s", method, path)
			}
		}
	}
}

func joinActions(actions []agent.Action) string {
	var all []string
	for _, a := range actions {
		all = append(all, string(a))
	}
	return strings.Join(all, ",")
}

// TestEveryCallHasARequirement is TestEveryPathHasARequirement for gRPC methods.
func TestEveryCallHasARequirement(t *testing.T) {
	g := newTestGateway(t)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	conn, err := grpc.NewClient(g.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	var open []string
	stated := map[string]bool{}
	for service, info := range g.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			required, ok := grpcRequirements[method]
			require.True(t, ok, "%s has no requirement", method)
			stated[method] = true
			if required.public || required.anyCredential {
				open = append(open, method)
			} else {
				require.NotEmpty(t, required.actions, "%s has no requirement", method)
			}
			try := func(credential string) codes.Code {
				ctx := t.Context()
				if credential != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential)
				}
				if !m.IsServerStream {
					return status.Code(conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}))
				}
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsClientStream}, method)
				require.NoError(t, err)
				if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
					require.ErrorIs(t, err, io.EOF, "refused already")
				}
				return status.Code(stream.RecvMsg(&emptypb.Empty{}))
			}
			if required.public {
				continue
			}
			require.Equal(t, codes.Unauthenticated, try(""), method)
			require.Equal(t, codes.Unauthenticated, try("wrong"), method)
			if !required.anyCredential {
				require.Equal(t, codes.PermissionDenied, try("acme|nothing.at.all"), method)
			}
			for _, a := range required.actions {
				if !access.Confinable(a) {
					require.Equal(t, codes.PermissionDenied, try("acme|"+string(a)+":x"), method)
				}
			}
		}
	}
	for method := range grpcRequirements {
		require.True(t, stated[method], "%s is no method", method)
	}
	sort.Strings(open)
	require.Equal(t, []string{
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	}, open)
}

// A path or method without a requirement is closed to everybody, including operators and callers without authentication.
func TestNoRequirementIsClosed(t *testing.T) {
	var required requirement
	for _, p := range []agent.Principal{
		{Method: agent.MethodNone, Tenant: "*"}, {Method: agent.MethodKey, Tenant: "*", Scopes: []string{"*"}}, {},
	} {
		require.Equal(t, agent.CodeDenied, agent.CodeOf(required.check(identity{principal: p}, "GET /forgotten")))
	}
	unidentified := callerOf(t.Context())
	require.Equal(t, agent.CodeInternal, agent.CodeOf(unidentified.anonymous))
	require.False(t, unidentified.principal.Trusted())
	require.Error(t, unidentified.allow(agent.ActionTurnsRead, ""))
	_, _, err := newTestGateway(t).identifyCall(t.Context(), "/turnstone.v1.AgentRuntime/Forgotten")
	require.Error(t, err)
}
