package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// outcome is the end of a stream.
type outcome struct {
	name, message string
	after         time.Duration
}

// openAllStreams opens a stream of every kind with a credential. The channel gets the outcome of each.
func openAllStreams(t *testing.T, d *testGateway, credential string) (ended <-chan outcome, count int) {
	t.Helper()
	ctx := withBearer(t.Context(), credential)
	conn := d.dial()
	runtime, catalog := pb.NewAgentRuntimeClient(conn), pb.NewCatalogClient(conn)
	read := func(method, path, body string, header ...string) func() string {
		return func() string {
			a := d.send(method, path, body, append(bearer(credential), header...)...)
			return strings.TrimSpace(string(a.body[max(0, len(a.body)-300):])) + " " + http.StatusText(a.status)
		}
	}
	streams := map[string]func() string{
		"SSE of a turn":        read("GET", "/v1/turns/t/events", ""),
		"SSE of a new turn":    read("POST", "/v1/turns", `{"message":"x","turn_id":"sse"}`, "Accept", "text/event-stream"),
		"SSE of the catalog":   read("GET", "/v1/catalog/stream", ""),
		"a request that waits": read("POST", "/v1/turns", `{"message":"x","turn_id":"wait"}`),
		"a job that waits":     read("POST", "/test/chat", `{"prompt":"x"}`),
		"gRPC Follow": grpcStream(func() (grpc.ServerStreamingClient[pb.Event], error) {
			return runtime.Follow(ctx, &pb.FollowRequest{TurnId: "t"})
		}),
		"gRPC Stream": grpcStream(func() (grpc.ServerStreamingClient[pb.Event], error) {
			return runtime.Stream(ctx, &pb.TurnRequest{Message: "x", TurnId: "stream"})
		}),
		"gRPC StreamCatalog": grpcStream(func() (grpc.ServerStreamingClient[pb.CatalogEvent], error) {
			return catalog.StreamCatalog(ctx, &pb.StreamCatalogRequest{})
		}),
		"gRPC AskAgentStream": grpcStream(func() (grpc.ServerStreamingClient[pb.AgentResponse], error) {
			return runtime.AskAgentStream(ctx, &pb.AgentRequest{Query: "x", TurnId: "ask"})
		}),
		"gRPC health": grpcStream(func() (grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse], error) {
			return grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		}),
		"gRPC Invoke": func() string {
			_, err := runtime.Invoke(ctx, &pb.TurnRequest{Message: "x", TurnId: "invoke"})
			return status.Code(err).String() + " " + status.Convert(err).Message()
		},
	}
	out := make(chan outcome, len(streams))
	start := time.Now()
	for name, run := range streams {
		go func() {
			message := run()
			out <- outcome{name, message, time.Since(start)}
		}()
	}
	// Eight follow a turn and two the catalog; the health stream has no counter.
	require.Eventually(t, func() bool { return d.rt.Followers() == 8 && d.catalog.Watchers() == 2 }, 10*time.Second, time.Millisecond)
	return out, len(streams)
}

func grpcStream[T any](open func() (grpc.ServerStreamingClient[T], error)) func() string {
	return func() string {
		s, err := open()
		for err == nil {
			_, err = s.Recv()
		}
		return status.Code(err).String() + " " + status.Convert(err).Message()
	}
}

// requireEndReason checks that a stream has told its client why it ended.
func requireEndReason(t *testing.T, o outcome, reason string) {
	t.Helper()
	switch {
	case strings.HasPrefix(o.name, "gRPC"):
		require.Contains(t, o.message, codes.Unauthenticated.String(), o.name)
		require.Contains(t, o.message, reason, o.name)
	case strings.HasPrefix(o.name, "SSE"):
		require.Contains(t, o.message, "event: error", o.name)
		require.Contains(t, o.message, `"type":"unauthenticated"`, o.name)
		require.Contains(t, o.message, reason, o.name)
	default:
		require.Contains(t, o.message, http.StatusText(http.StatusAccepted), "%s: its turn was accepted, and goes on", o.name)
	}
}

// A key that is revoked or rotated in another process ends its open streams within five seconds.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		end    func(store *accesstest.KeyStore, id string) error
	}{
		"revoked": {"revoked", func(store *accesstest.KeyStore, id string) error {
			_, err := store.RevokeKey(t.Context(), "acme", id, time.Now())
			return err
		}},
		"rotated away": {"expired", func(store *accesstest.KeyStore, id string) error {
			_, err := store.ExpireKey(t.Context(), "acme", id, time.Now(), "next")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, store, trail := startWithKeys(t, nil)
			key := d.createKey(`{"name":"web","tenant":"acme","scopes":["*"]}`, operatorKey())
			other := d.createKey(`{"name":"other","tenant":"acme","scopes":["*"]}`, operatorKey())
			_, err := d.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{
				TurnID: "t", Message: "x", Context: agent.InvocationContext{Tenant: "acme"},
			}})
			require.NoError(t, err)
			ended, count := openAllStreams(t, d, key.Key)
			stays := d.follow(t.Context(), "/v1/turns/t/events", bearer(other.Key)...)

			require.NoError(t, c.end(store, key.ID))
			at := time.Now()
			for range count {
				o := <-ended
				require.Less(t, time.Since(at), 5*time.Second+time.Second, "%s (a second is the machine's)", o.name)
				requireEndReason(t, o, c.reason)
				t.Logf("%s ended %s after the key", o.name, time.Since(at).Round(10*time.Millisecond))
			}
			d.rt.Say("t", "the others go on")
			body, err := io.ReadAll(stays.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "the others go on")
			records := 0
			for _, r := range trail.Records() {
				if r.Action == agent.AuditAuthenticate && r.Credential == "key/"+key.ID {
					records++
				}
			}
			require.Equal(t, 1, records, "once, however many streams it had")
		})
	}
}

// mutableAuth is an authenticator whose result a test changes.
type mutableAuth struct {
	mu  sync.Mutex
	p   agent.Principal
	err error
}

func (c *mutableAuth) Authenticate(context.Context, access.Credentials) (agent.Principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p, c.err
}

func (c *mutableAuth) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// So do changed permissions and an expired token.
func TestStreamsEndWhenTheirCredentialChanges(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		change func(*mutableAuth)
	}{
		"fewer scopes": {"allows something else", func(c *mutableAuth) { c.p.Scopes = []string{"turns.read:analyst"} }},
		"expired":      {"the token has expired", func(c *mutableAuth) { c.p, c.err = agent.Principal{}, access.Refused("the token has expired") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			auth := &mutableAuth{p: gatewaytest.Caller("acme", "ann", "*")}
			d := startGateway(t, func(c *gateway.Config) { c.Auth = auth })
			_, err := d.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{
				TurnID: "t", Message: "x", Context: agent.InvocationContext{Tenant: "acme"},
			}})
			require.NoError(t, err)
			ended, count := openAllStreams(t, d, "ann")
			auth.set(func() { c.change(auth) })
			at := time.Now()
			for range count {
				o := <-ended
				require.Less(t, time.Since(at), 5*time.Second)
				requireEndReason(t, o, c.reason)
			}
		})
	}
}
