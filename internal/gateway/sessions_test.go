package gateway_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestExportSession(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.ResultPart = 100 })
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
	d := open(t, nil)
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
