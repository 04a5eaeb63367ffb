package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// catalogEventReader returns a function that reads the next event of a catalog stream.
func catalogEventReader(t *testing.T, body io.Reader) func() (id string, e agent.CatalogEvent) {
	t.Helper()
	next := gatewaytest.Frames(t, body)
	next()
	return func() (id string, e agent.CatalogEvent) {
		frame := next()
		lines := strings.Split(frame, "\n")
		require.Equal(t, "event: catalog", lines[1], frame)
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &e))
		return strings.TrimPrefix(lines[0], "id: "), e
	}
}

func agentEvent(tenant, name string) agent.CatalogEvent {
	return agent.CatalogEvent{Agents: []agent.AgentInfo{{Tenant: tenant, Name: name}}}
}

func TestCatalogStream(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	resp := d.follow(t.Context(), "/v1/catalog/stream")
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	next := catalogEventReader(t, resp.Body)
	id, e := next()
	require.Equal(t, "1", id)
	require.True(t, e.Snapshot)
	require.Len(t, e.Nodes, 3)
	require.Len(t, e.Agents, 2, "not the one of another tenant")

	d.catalog.Change(agentEvent("default", "new"))
	id, e = next()
	require.Equal(t, "2", id)
	require.False(t, e.Snapshot)
	require.Equal(t, "new", e.Agents[0].Name)
	require.Equal(t, []agent.NodeInfo{}, e.Nodes)
	d.catalog.Change(agentEvent("acme", "hidden")) // revision 3 has no event for this client
	gone := agent.RemovedEntry{Kind: agent.KindAgent, Tenant: "default", Name: "new"}
	d.catalog.Change(agent.CatalogEvent{Removed: []agent.RemovedEntry{gone}})
	id, e = next()
	require.Equal(t, "4", id)
	require.Equal(t, []agent.RemovedEntry{gone}, e.Removed)
	require.Empty(t, e.Agents)

	// A client that resumes gets all changes since as one event. The header overrides the parameter.
	for path, header := range map[string][]string{"/v1/catalog/stream?after=1": nil, "/v1/catalog/stream?after=0": {"Last-Event-ID", "1"}} {
		id, e = catalogEventReader(t, d.follow(t.Context(), path, header...).Body)()
		require.Equal(t, "4", id)
		require.False(t, e.Snapshot)
		require.Equal(t, []agent.RemovedEntry{gone}, e.Removed)
	}
	d.catalog.Forget(3)
	_, e = catalogEventReader(t, d.follow(t.Context(), "/v1/catalog/stream?after=1&tenant=*").Body)()
	require.True(t, e.Snapshot, "revision 1 is forgotten: everything again")
	require.Len(t, e.Agents, 4)
	_, e = catalogEventReader(t, d.follow(t.Context(), "/v1/catalog/stream", "Turnstone-Tenant", "acme").Body)()
	require.Len(t, e.Agents, 3)
}

func TestCatalogStreamOnTheWire(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.Heartbeat = 5 * time.Millisecond })
	next := gatewaytest.Frames(t, d.follow(t.Context(), "/v1/catalog/stream").Body)
	for _, want := range []string{
		"retry: 1000\n", "id: 1\nevent: catalog\n" + `data: {"revision":1,"snapshot":true,"nodes":[],"agents":[],"removed":[]}` + "\n", ":\n", ":\n",
	} {
		frame := next()
		require.Equal(t, want, frame)
	}
	require.Equal(t, 200, d.send("HEAD", "/v1/catalog/stream", "").status)
}

func TestCatalogStreamCountsAndEndsAsOthersDo(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.Streams = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	d.follow(ctx, "/v1/catalog/stream")
	require.Equal(t, 429, d.send("GET", "/v1/catalog/stream", "").status)
	stub := pb.NewCatalogClient(d.dial())
	require.Equal(t, codes.ResourceExhausted, status.Code(errorOf(receive(stub.StreamCatalog(t.Context(), &pb.StreamCatalogRequest{})))))
	cancel()
	require.Eventually(t, func() bool { return d.catalog.Watchers() == 0 }, 5*time.Second, time.Millisecond, "the watch goes with its client")

	var resp io.Reader
	require.Eventually(t, func() bool {
		r := d.follow(t.Context(), "/v1/catalog/stream")
		resp = r.Body
		return r.StatusCode == http.StatusOK
	}, 5*time.Second, time.Millisecond, "the place is free again")
	next := gatewaytest.Frames(t, resp)
	for range 2 {
		next()
	}
	stop, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	require.NoError(t, d.Shutdown(stop))
	require.Empty(t, next(), "it ends cleanly, behind a whole event")
}

func TestSlowCatalogReaderStallsOnlyItself(t *testing.T) {
	d := startGateway(t, nil)
	slow := d.follow(t.Context(), "/v1/catalog/stream")
	quick, err := pb.NewCatalogClient(d.dial()).StreamCatalog(t.Context(), &pb.StreamCatalogRequest{})
	require.NoError(t, err)
	_, err = quick.Recv()
	require.NoError(t, err)
	// All changes together are larger than the buffers of the connection.
	const changes = 24
	for i := range changes {
		d.catalog.Change(agent.CatalogEvent{Agents: []agent.AgentInfo{{Name: "big", Description: fmt.Sprint(i) + strings.Repeat("x", 1<<20)}}})
		e, err := quick.Recv()
		require.NoError(t, err)
		require.EqualValues(t, i+2, e.GetRevision())
	}
	next, events, last := catalogEventReader(t, slow.Body), 0, agent.CatalogEvent{}
	for last.Revision < changes+1 {
		_, last = next()
		events++
	}
	require.True(t, strings.HasPrefix(last.Agents[0].Description, fmt.Sprint(changes-1, "x")), "it has the newest state")
	require.Less(t, events, changes, "and what it did not take in time came as one")
}

func TestSlowGRPCCatalogReaderMissesNoState(t *testing.T) {
	d := startGateway(t, nil)
	stub := pb.NewCatalogClient(d.dial())
	slow, err := stub.StreamCatalog(t.Context(), &pb.StreamCatalogRequest{Tenant: "*"})
	require.NoError(t, err)
	_, err = slow.Header()
	require.NoError(t, err, "the header says that the stream stands")
	const last = 40
	for i := range last {
		d.catalog.Change(agent.CatalogEvent{Agents: []agent.AgentInfo{{Name: fmt.Sprint("a", i), Description: strings.Repeat("x", 64<<10)}}})
	}
	seen, events := map[string]bool{}, 0
	for revision := int64(0); revision < last+1; {
		e, err := slow.Recv()
		require.NoError(t, err)
		events++
		revision = e.GetRevision()
		for _, a := range e.GetAgents() {
			seen[a.GetName()] = true
		}
	}
	require.Len(t, seen, last)
	require.Less(t, events, last, "what it did not read in time came together")
}

func TestStreamCatalogFaults(t *testing.T) {
	d := startGateway(t, nil)
	stub := pb.NewCatalogClient(d.dial())
	for field, r := range map[string]*pb.StreamCatalogRequest{"after_revision": {AfterRevision: -1}, "tenant": {Tenant: "a b"}} {
		_, err := receive(stub.StreamCatalog(t.Context(), r))
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.Equal(t, field, detail[*errdetails.BadRequest](t, err).GetFieldViolations()[0].GetField())
	}
	s, err := stub.StreamCatalog(t.Context(), &pb.StreamCatalogRequest{})
	require.NoError(t, err)
	_, err = s.Recv()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
	_, err = s.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "resume")
}
