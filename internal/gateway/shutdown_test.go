package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// blockingHealth has a Health that blocks until the test answers.
type blockingHealth struct {
	*gatewaytest.Runtime

	asked, answer chan struct{}
}

func (a blockingHealth) Health(ctx context.Context) gateway.Health {
	a.asked <- struct{}{}
	<-a.answer
	return a.Runtime.Health(ctx)
}

// A gateway that shuts down reports that it is draining, ends streams after a complete event, and lets short calls finish. Waiting requests are told
// that their turns go on.
func TestDraining(t *testing.T) {
	a := blockingHealth{gatewaytest.New(), make(chan struct{}), make(chan struct{})}
	ports := gatewaytest.Ports(a.Runtime, &gatewaytest.Catalog{})
	ports.Health = a
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0", Ports: ports,
		Auth: gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "*")},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	d := &testGateway{Gateway: g, rt: a.Runtime, url: "http://" + g.HTTPAddr(), t: t}
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t"}`, bearer("ann")...).status)
	a.Emit("t", gatewaytest.Status(agent.StatusRunning), gatewaytest.Token("one "))
	events := d.follow(t.Context(), "/v1/turns/t/events", bearer("ann")...)
	defer events.Body.Close()
	lines := bufio.NewReader(events.Body)
	stream, err := pb.NewAgentRuntimeClient(d.dial()).Follow(withBearer(t.Context(), "ann"), &pb.FollowRequest{TurnId: "t"})
	require.NoError(t, err)
	for range 2 {
		_, err := stream.Recv()
		require.NoError(t, err)
	}
	seen := ""
	for !strings.Contains(seen, "id: 2\n") {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		seen += line
	}
	waiting := make(chan answer, 1)
	go func() { waiting <- d.send("POST", "/v1/turns", `{"message":"x","turn_id":"u"}`, bearer("ann")...) }()
	require.Eventually(t, func() bool { return a.Followers() == 3 }, 5*time.Second, time.Millisecond)
	health := make(chan answer, 1)
	go func() { health <- d.send("GET", "/health", "") }()
	<-a.asked

	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		done <- g.Shutdown(ctx)
	}()
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "resume")
	require.Positive(t, detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration())
	rest, err := io.ReadAll(lines)
	require.NoError(t, err, "the stream ends in good order")
	require.True(t, strings.HasSuffix(string(rest), "\n\n"), "%q", rest)
	accepted := <-waiting
	require.Equal(t, 202, accepted.status, "the turn goes on")
	require.Contains(t, string(accepted.body), `"turn_id":"u"`)
	close(a.answer)
	last := <-health
	require.Equal(t, 503, last.status)
	require.Contains(t, string(last.body), `{"status":"draining","workers":0,"dependencies":[{"name":"temporal","ok":true`)
	require.NoError(t, <-done)
}

func TestShutdownDoesNotWaitForUnusedConnections(t *testing.T) {
	d := startGateway(t, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, 200, d.send("GET", "/health", "").status) // now the connection has been accepted
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
}
