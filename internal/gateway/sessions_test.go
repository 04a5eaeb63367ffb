package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestExportSession(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.ResultPart = 100 })
	d.send("POST", "/v1/turns?wait=false", `{"message":"hi <b>","turn_id":"t","session_id":"s"}`)
	d.rt.Say("t", "hello")
	a := d.send("GET", "/v1/sessions/s/export", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	fields := decode[map[string]json.RawMessage](t, a)
	require.JSONEq(t, `[]`, string(fields["approvals"]))
	require.JSONEq(t, `[]`, string(fields["notes"]))
	export := decode[agent.SessionExport](t, a)
	require.Equal(t, "hello", export.Turns[0].Output.Output)
	require.Equal(t, "hi <b>", export.Messages[0].Blocks[0].Text)
	require.Equal(t, agent.RoleUser, export.Messages[0].Role)

	c := pb.NewAgentRuntimeClient(d.dial())
	s, err := c.ExportSession(t.Context(), &pb.ExportSessionRequest{SessionId: "s"})
	require.NoError(t, err)
	parts := collect(t, s)
	require.Greater(t, len(parts), 1)
	var whole []byte
	for _, part := range parts {
		whole = append(whole, part.GetData()...)
	}
	require.Equal(t, string(a.body), string(whole))

	for _, path := range []string{"nope/export", "a%20b/export", "s/export?tenant=other"} {
		require.Equal(t, 404, d.send("GET", "/v1/sessions/"+path, "").status, path)
	}
	require.Equal(t, 400, d.send("GET", "/v1/sessions/s/export?format=zip", "").status)
	for _, id := range []string{"nope", "a b", ""} {
		require.Equal(t, codes.NotFound, status.Code(errorOf(receive(c.ExportSession(t.Context(), &pb.ExportSessionRequest{SessionId: id})))), id)
	}
}

func TestDeleteSession(t *testing.T) {
	d := startGateway(t, nil)
	c := pb.NewAgentRuntimeClient(d.dial())
	begin := func(turn, session string) {
		d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"`+turn+`","session_id":"`+session+`"}`)
	}
	begin("t", "s")
	require.Equal(t, 409, d.send("DELETE", "/v1/sessions/s", "").status, "a turn runs")
	_, err := c.DeleteSession(t.Context(), &pb.DeleteSessionRequest{SessionId: "s"})
	require.Equal(t, codes.Aborted, status.Code(err))
	d.rt.Say("t", "done")
	for _, path := range []string{"nope", "a%20b", "s?tenant=other"} {
		require.Equal(t, 404, d.send("DELETE", "/v1/sessions/"+path, "").status, path)
	}
	for _, path := range []string{"s?dry_run=true", "s?tenant=default&tenant=acme"} {
		require.Equal(t, 400, d.send("DELETE", "/v1/sessions/"+path, "").status, path)
	}
	require.Equal(t, 400, d.send("DELETE", "/v1/sessions/s?tenant=default", "", "Turnstone-Tenant", "acme").status)
	require.Equal(t, 405, d.send("POST", "/v1/sessions/s", "").status)

	a := d.send("DELETE", "/v1/sessions/s", "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"session_id":"s","turns":1,"messages":1,"blobs":0}`, string(a.body))
	require.Equal(t, 404, d.send("DELETE", "/v1/sessions/s", "").status)

	begin("u", "r")
	d.rt.Say("u", "done")
	_, err = c.DeleteSession(metadata.AppendToOutgoingContext(t.Context(), "turnstone-tenant", "acme"), &pb.DeleteSessionRequest{SessionId: "r"})
	require.Equal(t, codes.NotFound, status.Code(err))
	gone, err := c.DeleteSession(t.Context(), &pb.DeleteSessionRequest{SessionId: "r"})
	require.NoError(t, err)
	require.Equal(t, int64(1), gone.GetTurns())
	_, err = c.DeleteSession(t.Context(), &pb.DeleteSessionRequest{SessionId: "a b"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestRenameSession(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth = gatewaytest.Credentials{
			"user": gatewaytest.Caller("acme", "ann", "turns.run:analyst", "sessions.read"), "other": gatewaytest.Caller("other", "eve", "*"),
			"reader": gatewaytest.Caller("acme", "bob", "sessions.*"), "runner": gatewaytest.Caller("acme", "bob", "turns.*"),
		}
	})
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"fetch flights","session_id":"s","agent":"analyst"}`, bearer("user")...).status)
	long := strings.Repeat("é", 200)
	for _, c := range []struct{ body, want string }{
		{`{"title":" To LAX\t"}`, "To LAX"}, {`{"title":null}`, ""}, {`{"title":"` + long + `"}`, long}, {`{"title":"  "}`, ""}, {`{"title":"To LAX"}`, "To LAX"},
	} {
		a := d.send("PATCH", "/v1/sessions/s", c.body, bearer("user")...)
		require.Equal(t, 200, a.status, "%s", a.body)
		renamed := decode[agent.SessionSummary](t, a)
		require.Equal(t, c.want+" fetch flights", renamed.Title+" "+renamed.Summary)
		list := decode[agent.SessionPage](t, d.send("GET", "/v1/sessions?session=s", "", bearer("reader")...))
		require.Equal(t, []agent.SessionSummary{renamed}, list.Sessions)
		require.Equal(t, c.want, decode[agent.SessionExport](t, d.send("GET", "/v1/sessions/s/export", "", bearer("reader")...)).Title)
	}
	for _, body := range []string{
		`{}`, `{"title":7}`, `{"title":"a\nb"}`, `{"title":"a\u0000"}`, `{"title":"a\u0085b"}`, `{"title":"a\u2028b"}`, `{"title":"` + long + `x"}`,
	} {
		a := d.send("PATCH", "/v1/sessions/s", body, bearer("user")...)
		require.Equal(t, 400, a.status, body)
		require.Equal(t, "title", a.failure(t).Field, body)
	}
	require.Equal(t, 400, d.send("PATCH", "/v1/sessions/s", `{"title":"x","name":"y"}`, bearer("user")...).status)
	for _, c := range []struct {
		session, key string
		want         int
	}{{"none", "user", 404}, {"a%20b", "user", 404}, {"s", "other", 404}, {"s", "reader", 403}, {"s", "runner", 403}} {
		require.Equal(t, c.want, d.send("PATCH", "/v1/sessions/"+c.session, `{"title":"x"}`, bearer(c.key)...).status, c)
	}

	c := pb.NewAgentRuntimeClient(d.dial())
	r, err := c.RenameSession(withBearer(t.Context(), "user"), &pb.RenameSessionRequest{SessionId: "s", Title: "New"})
	require.NoError(t, err)
	require.Equal(t, "New s", r.GetSession().GetTitle()+" "+r.GetSession().GetSessionId())
	_, err = c.RenameSession(withBearer(t.Context(), "user"), &pb.RenameSessionRequest{SessionId: "s", Title: "a\nb"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = c.RenameSession(withBearer(t.Context(), "reader"), &pb.RenameSessionRequest{SessionId: "s"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
