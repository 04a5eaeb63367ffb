package gateway_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// recordingFinder records its queries. Its turns are of two agents.
type recordingFinder struct {
	gateway.Finder

	turns    agent.TurnQuery
	sessions agent.SessionQuery
}

func (f *recordingFinder) FindTurns(_ context.Context, q agent.TurnQuery) (agent.TurnPage, error) {
	f.turns = q
	return agent.TurnPage{Turns: []agent.TurnSummary{{TurnID: "t1", Agent: "analyst"}, {TurnID: "t2", Agent: "clerk"}}, Next: "n"}, nil
}

func (f *recordingFinder) FindSessions(_ context.Context, q agent.SessionQuery) (agent.SessionPage, error) {
	f.sessions = q
	return agent.SessionPage{}, nil
}

func TestFinding(t *testing.T) {
	f := &recordingFinder{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Finder = f
		c.Auth = gatewaytest.Credentials{
			"all": gatewaytest.Caller("acme", "ann", "*"), "one": gatewaytest.Caller("acme", "ann", "turns.read:a*"),
			"any": gatewaytest.Caller(agent.AnyTenant, "", "*"), "reader": gatewaytest.Caller("acme", "ann", "sessions.read"),
		}
	})
	since, until := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	const times = "&since=2026-11-01T00:00:00Z&until=2026-11-02T08:00:00Z"

	a := d.send("GET", "/v1/turns?status=failed,queued&status=running&status=failed&agent=a&user=u%20v&channel=c&session=s&rerun_of=t&text=L%C3%A4X&limit=200&after=p"+times,
		"", bearer("all")...)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, agent.TurnQuery{
		Tenant: "acme", Status: []string{"failed", "queued", "running"}, Agent: "a", UserID: "u v", Channel: "c", SessionID: "s", RerunOf: "t", Since: since,
		Until: until, Text: "LäX", Limit: 200, After: "p",
	}, f.turns)
	require.Len(t, decode[agent.TurnPage](t, a).Turns, 2)
	a = d.send("GET", "/v1/sessions?status=failed,queued&agent=a&user=u&channel=c&session=s&text=x&limit=1&after=p"+times, "", bearer("reader")...)
	require.JSONEq(t, `{"sessions":[],"next":""}`, string(a.body))
	require.Equal(t, agent.SessionQuery{
		Tenant: "acme", Status: []string{"failed", "queued"}, Agent: "a", UserID: "u", Channel: "c", SessionID: "s", Since: since, Until: until, Text: "x",
		Limit: 1, After: "p",
	}, f.sessions)

	page := decode[agent.TurnPage](t, d.send("GET", "/v1/turns", "", bearer("one")...))
	require.Len(t, page.Turns, 1, "of the agents that the credential may read")
	require.Equal(t, "n", page.Next)
	require.Equal(t, 403, d.send("GET", "/v1/sessions", "", bearer("one")...).status)
	require.Equal(t, 403, d.send("GET", "/v1/turns", "", bearer("reader")...).status)
	require.Equal(t, 403, d.send("GET", "/v1/turns?tenant=other", "", bearer("all")...).status)
	require.Equal(t, 200, d.send("GET", "/v1/sessions", "", bearer("any")...).status)
	require.Equal(t, agent.DefaultTenant, f.sessions.Tenant)
	require.Equal(t, 200, d.send("GET", "/v1/turns?tenant=other", "", bearer("any")...).status)
	require.Equal(t, "other", f.turns.Tenant)

	for query, field := range map[string]string{
		"limit=201": "limit", "limit=-1": "limit", "limit=x": "limit", "since=yesterday": "since", "until=2026": "until", "user=a&user=b": "user",
		"text=" + strings.Repeat("x", 2001): "text", "agent=%01": "agent", "after=" + strings.Repeat("x", 1025): "after",
	} {
		for _, path := range []string{"/v1/turns?", "/v1/sessions?"} {
			a := d.send("GET", path+query, "", bearer("all")...)
			require.Equal(t, 400, a.status, path+query)
			require.Equal(t, field, a.failure(t).Field, path+query)
		}
	}
	for path, field := range map[string]string{
		"/v1/turns?status=failed,odd": "status", "/v1/turns?rerun_of=%01": "rerun_of", "/v1/sessions?rerun_of=t": "rerun_of",
		"/v1/sessions?status=odd": "status", "/v1/sessions?session=%01": "session",
	} {
		a := d.send("GET", path, "", bearer("all")...)
		require.Equal(t, 400, a.status, path)
		require.Equal(t, field, a.failure(t).Field, path)
	}
	a = d.send("GET", "/v1/turns?status=odd", "", bearer("all")...)
	require.Contains(t, a.failure(t).Message, "want one or more of queued, running, waiting, completed, failed, cancelled")
}

// The same lists over gRPC.
func TestFindingThroughGRPC(t *testing.T) {
	f := &recordingFinder{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Finder = f
		c.Auth = gatewaytest.Credentials{
			"all": gatewaytest.Caller("acme", "ann", "*"), "one": gatewaytest.Caller("acme", "ann", "turns.read:a*"),
			"reader": gatewaytest.Caller("acme", "ann", "sessions.read"),
		}
	})
	c := pb.NewAgentRuntimeClient(d.dial())
	since := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	page, err := c.ListTurns(withBearer(t.Context(), "all"), &pb.ListTurnsRequest{
		Status: []string{"waiting", "failed"}, Agent: "a", User: "u", Channel: "c", Session: "s", RerunOf: "t", Since: timestamppb.New(since), Text: "x",
		Limit: 7, After: "p",
	})
	require.NoError(t, err)
	require.Equal(t, agent.TurnQuery{
		Tenant: "acme", Status: []string{"waiting", "failed"}, Agent: "a", UserID: "u", Channel: "c", SessionID: "s", RerunOf: "t", Since: since, Text: "x",
		Limit: 7, After: "p",
	}, f.turns)
	require.Len(t, page.GetTurns(), 2)
	require.Equal(t, "n", page.GetNext())
	page, err = c.ListTurns(withBearer(t.Context(), "one"), &pb.ListTurnsRequest{})
	require.NoError(t, err)
	require.Len(t, page.GetTurns(), 1, "of the agents that the credential may read")
	_, err = c.ListSessions(withBearer(t.Context(), "reader"), &pb.ListSessionsRequest{
		Status: []string{"failed"}, Agent: "a", User: "u", Channel: "c", Session: "s", Until: timestamppb.New(since), Text: "x", Limit: 200, After: "p",
	})
	require.NoError(t, err)
	require.Equal(t, agent.SessionQuery{
		Tenant: "acme", Status: []string{"failed"}, Agent: "a", UserID: "u", Channel: "c", SessionID: "s", Until: since, Text: "x", Limit: 200, After: "p",
	}, f.sessions)

	_, err = c.ListTurns(withBearer(t.Context(), "reader"), &pb.ListTurnsRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	for field, q := range map[string]*pb.ListTurnsRequest{
		"limit": {Limit: 201}, "since": {Since: &timestamppb.Timestamp{Seconds: math.MaxInt64}}, "until": {Until: &timestamppb.Timestamp{Seconds: math.MinInt64}},
	} {
		_, err := c.ListTurns(withBearer(t.Context(), "all"), q)
		require.Equal(t, codes.InvalidArgument, status.Code(err), field)
		require.Contains(t, status.Convert(err).Message(), field+": ")
	}
	_, err = c.ListSessions(withBearer(t.Context(), "reader"), &pb.ListSessionsRequest{Limit: -1})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
