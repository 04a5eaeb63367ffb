package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// measured matches the duration at the end of a line, which is never the same.
var measured = regexp.MustCompile(`(answers) — \S+`)

func TestDoctor(t *testing.T) {
	b := setupWith(t, func(cfg *gateway.Config) { cfg.Version = "v1.2.9" })
	b.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "default", Default: true}}
	b.catalog.Sources = []agent.SourceStatus{{Name: "store", OK: true, Detail: "revision 3"}}
	var asked [2]string
	checks := []gateway.DoctorCheck{
		{Name: "connects", OK: true, TookMS: 12.3},
		{Name: "calls a tool", Rule: "native-execution", OK: true, Detail: "get_weather"},
	}
	b.rt.Examine = func(_ context.Context, name, profile string, report func(gateway.DoctorCheck)) error {
		asked = [2]string{name, profile}
		for _, c := range checks {
			report(c)
		}
		if profile == "unknown" {
			return &agent.Error{Code: agent.CodeNotFound, Field: "model", Err: os.ErrNotExist}
		}
		return nil
	}
	b.comment("$ starter doctor")
	require.Equal(t, 0, b.run(noInput(), "doctor"), b.screen)
	checks = append(checks, gateway.DoctorCheck{Name: "uses the result", Rule: "native-execution", Detail: "it made one up\x1b[2J", TookMS: 1500})
	b.comment("\n$ starter doctor --model gpt-4o --agent analyst")
	b.rt.Break("postgres")
	b.catalog.Sources = append(b.catalog.Sources, agent.SourceStatus{Name: "folder", Faults: agent.Faults{{File: "clerk.yaml", Line: 7, Message: "no model profile \"x\""}}})
	b.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "default"}, {Name: "clerk", Tenant: "default", Fault: "no model profile \"x\""}}
	require.Equal(t, exitFailed, b.run(noInput(), "doctor", "--model", "gpt-4o", "--agent", "analyst"))
	golden(t, "doctor", measured.ReplaceAllString(strings.ReplaceAll(b.screen.String(), b.server, defaultServer), "$1"))
	require.Equal(t, [2]string{"analyst", "gpt-4o"}, asked)

	got := answerWith[[]finding](b, exitFailed, "doctor")
	require.Equal(t, finding{
		Section: "models", Name: "uses the result", Rule: "native-execution", State: "failed", Detail: "it made one up\x1b[2J", Hint: remedyModel, TookMS: 1500,
	}, got[len(got)-1])
	for _, f := range got {
		require.Equal(t, f.State == "ok", f.OK)
		require.Equal(t, f.OK, f.Hint == "", "%+v: a failure has a hint", f)
	}

	asked = [2]string{"nobody"}
	b.rt.Break("")
	b.catalog.Sources, b.catalog.AgentList = b.catalog.Sources[:1], []agent.AgentInfo{{Name: "analyst", Default: true}}
	require.Equal(t, 0, b.run(noInput(), "doctor", "--no-models"), b.screen)
	require.Equal(t, [2]string{"nobody"}, asked, "no model is checked")
	checks = nil
	require.Equal(t, exitUsage, b.run(noInput(), "doctor", "--model", "unknown"))
	require.Equal(t, exitUsage, b.run(noInput(), "doctor", "--model", "a b"))
	require.Equal(t, exitUsage, b.run(noInput(), "doctor", "--model", "a", "--no-models"))
}

// runDoctor runs the doctor without models and returns its findings.
func runDoctor(b *bench, want int, args ...string) []finding {
	b.t.Helper()
	return answerWith[[]finding](b, want, append([]string{"doctor", "--no-models"}, args...)...)
}

// serveRaw starts a server of another protocol and returns its address.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// serveStatus starts an HTTP server that always has the same answer, and returns its URL.
func serveStatus(t *testing.T, status int, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestDoctorCannotReachTheServer checks the hints for servers that cannot be reached.
func TestDoctorCannotReachTheServer(t *testing.T) {
	cert, file := certificate(t)
	_, other := certificate(t)
	secure := setupWith(t, func(cfg *gateway.Config) {
		cfg.HTTPTLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	b := setup(t)
	plain := b.server
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	calls := grpc.NewServer()
	go func() { _ = calls.Serve(l) }()
	t.Cleanup(calls.Stop)
	for name, c := range map[string]struct {
		server string
		args   []string
		hint   string
	}{
		"wrong port":        {"http://" + closed.Addr().String(), nil, remedyStart},
		"unknown name":      {"http://nowhere.invalid", nil, remedyName},
		"http to https":     {strings.Replace(secure.server, "https:", "http:", 1), nil, remedyTLS},
		"https to http":     {strings.Replace(plain, "http:", "https:", 1), nil, remedyPlain},
		"unknown CA":        {secure.server, nil, remedyUnknownCA},
		"another CA":        {secure.server, []string{"--ca", other}, remedyUnknownCA},
		"name not in it":    {strings.Replace(secure.server, "127.0.0.1", "localhost", 1), []string{"--ca", file}, remedyHostname},
		"gRPC's port":       {"http://" + l.Addr().String(), nil, remedyNotHTTP},
		"closes at once":    {"http://" + serveRaw(t, func(c net.Conn) { _ = c.Close() }), nil, remedyClosed},
		"another protocol":  {"http://" + serveRaw(t, func(c net.Conn) { _, _ = c.Write([]byte("220 mail\r\n")); _ = c.Close() }), nil, remedyNotHTTP},
		"another website":   {serveStatus(t, 200, "<html>"), nil, remedyForeign},
		"other JSON":        {serveStatus(t, 200, `{"up":true}`), nil, remedyForeign},
		"proxy, status 502": {serveStatus(t, 502, "<html>"), nil, remedyGateway},
		"proxy, status 503": {serveStatus(t, 503, "<html>"), nil, remedyGateway},
		"a wrong path":      {plain + "/elsewhere", nil, remedyOld},
		"too many requests": {serveStatus(t, 429, `{"error":{"type":"rate_limited","message":"slow down"}}`), nil, remedyLimited},
		"internal error":    {serveStatus(t, 500, `{"error":{"type":"internal","message":"internal error"}}`), nil, remedyInternal},
	} {
		t.Run(name, func(t *testing.T) {
			b.server = c.server
			got := runDoctor(b, exitFailed, c.args...)
			require.Len(t, got, 1, "no other check runs")
			require.Equal(t, "failed", got[0].State)
			hints := []string{c.hint}
			if c.hint == remedyNotHTTP { // the server may close the connection before the request
				hints = append(hints, remedyClosed)
			}
			require.Contains(t, hints, got[0].Hint, got[0].Detail)
			require.NotContains(t, got[0].Detail, "goroutine")
		})
	}
	secure.screen = &terminal{}
	got := runDoctor(secure, 0, "--ca", file)
	require.Contains(t, got, finding{Section: "machine", Name: "certificate", State: "warning", Detail: got[1].Detail, Hint: remedyCertificate})
	b.server = "ftp://x"
	require.Equal(t, exitUsage, b.run(noInput(), "doctor"))
}

// TestRemedies checks the hints for errors that a test cannot cause on every machine.
func TestRemedies(t *testing.T) {
	wrap := func(err error) error {
		return &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("%w at x: %w", client.ErrUnreachable, err)}
	}
	for remedy, err := range map[string]error{
		remedyDNS:       wrap(&net.DNSError{Err: "i/o timeout", IsTimeout: true}),
		remedySlow:      wrap(context.DeadlineExceeded),
		remedyProxy:     wrap(errors.New("proxyconnect tcp: dial tcp: refused")),
		remedyHandshake: wrap(errors.New("remote error: tls: certificate required")),
		remedyUnknown:   errors.New("never seen before"),
	} {
		require.Equal(t, remedy, (&app{}).remedy(err), "%v", err)
	}
	for _, r := range remedies {
		require.NotEmpty(t, r.remedy)
		require.NotContains(t, r.remedy, "\n")
		require.Less(t, len(r.remedy), 200)
	}
}

func TestDoctorAndCredentials(t *testing.T) {
	b := setupWith(t, func(cfg *gateway.Config) {
		cfg.Auth = gatewaytest.Credentials{
			anns: gatewaytest.Caller("acme", "ann", "turns.*", "agents.read"), operators: gatewaytest.Caller(agent.AnyTenant, "", "*"),
		}
		cfg.Version = "v9.0.0"
	})
	last := func(got []finding) finding { return got[len(got)-1] }
	got := runDoctor(b, exitFailed)
	require.Equal(t, remedyNoKey, findFinding(t, got, "credential").Hint)
	require.Equal(t, "postgres", last(got).Name, "health needs no credential")
	b.key = "not-a" + "-good-one"
	got = runDoctor(b, exitFailed)
	require.Equal(t, remedyBadKey, findFinding(t, got, "credential").Hint)
	require.NotContains(t, b.screen.String(), b.key)
	b.key = anns
	got = runDoctor(b, 0)
	require.Contains(t, findFinding(t, got, "credential").Detail, "ann of tenant acme")
	require.Equal(t, remedyRights, findFinding(t, got, "documents").Hint)
	require.Equal(t, remedyNoAgents, findFinding(t, got, "agents").Hint)
	b.key = operators
	got = runDoctor(b, 0)
	require.Equal(t, remedyOldStarter, findFinding(t, got, "version").Hint)
}

func findFinding(t *testing.T, all []finding, name string) finding {
	t.Helper()
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no line %q in %+v", name, all)
	return finding{}
}

// The server refuses a host name that it does not know.
func TestDoctorAndForeignHosts(t *testing.T) {
	b := setup(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(b.server, "http://"))
	require.NoError(t, err)
	inner := &app{server: b.server}
	c, err := client.New(client.Config{Server: "http://turnstone.example.com:" + port, HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}}})
	require.NoError(t, err)
	_, err = c.Health(t.Context())
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Equal(t, remedyHost, inner.remedy(err))
}

func TestDoctorAndOldServers(t *testing.T) {
	body := `{"status":"ok","version":"v0.1.0"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, body)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	b := setup(t)
	b.server = s.URL
	got := runDoctor(b, exitFailed)
	require.Equal(t, remedyOldServer, findFinding(t, got, "version").Hint)
	require.Equal(t, remedyClock, findFinding(t, got, "clock").Hint)
	require.Regexp(t, `1h0m\d+s apart`, findFinding(t, got, "clock").Detail) // the header has whole seconds
	require.Equal(t, remedyOld, findFinding(t, got, "credential").Hint)
	require.Equal(t, remedySilentServer, findFinding(t, got, "dependencies").Hint)
	body = `{"status":"draining","dependencies":[{"name":"worker","ok":false,"state":"degraded","since":"2026-11-03T04:05:06Z","took_ms":1}]}`
	got = runDoctor(b, exitFailed)
	require.Equal(t, remedyDraining, findFinding(t, got, "status").Hint)
	require.Equal(t, "warning", findFinding(t, got, "worker").State)
	require.Contains(t, findFinding(t, got, "worker").Detail, "(since 2026-11-03")
	require.Equal(t, remedyNoHint, findFinding(t, got, "worker").Hint)
}

func TestFittingReleases(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"v1.2.3", "v1.9.0"}: true, {"v1.2.3", "v2.0.0"}: false, {"v0.3.1", "v0.3.9"}: true, {"v0.3.1", "v0.4.0"}: false,
		{"(devel)", "v1.0.0"}: true, {"v1.0.0", "main"}: true, {"v0.0.0-20261122-abc", "v0.4.0"}: true,
	} {
		require.Equal(t, want, isCompatible(pair[0], pair[1]), pair)
	}
}

func TestDoctorIsInterrupted(t *testing.T) {
	b := setup(t)
	began := make(chan struct{})
	b.rt.Examine = func(ctx context.Context, _, _ string, report func(gateway.DoctorCheck)) error {
		report(gateway.DoctorCheck{Name: "connects", OK: true})
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	go func() {
		<-began
		b.interrupts <- os.Interrupt
	}()
	require.Equal(t, exitInterrupted, b.run(noInput(), "doctor"), b.screen.String())
}
