package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestRenameSession(t *testing.T) {
	d := open(t, func(c *gateway.Config) {
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
	r, err := c.RenameSession(as(t.Context(), "user"), &pb.RenameSessionRequest{SessionId: "s", Title: "New"})
	require.NoError(t, err)
	require.Equal(t, "New s", r.GetSession().GetTitle()+" "+r.GetSession().GetSessionId())
	_, err = c.RenameSession(as(t.Context(), "user"), &pb.RenameSessionRequest{SessionId: "s", Title: "a\nb"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = c.RenameSession(as(t.Context(), "reader"), &pb.RenameSessionRequest{SessionId: "s"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
