package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// A rerun and a fork through gRPC.
func TestRerunThroughGRPC(t *testing.T) {
	d := open(t, nil)
	c := pb.NewAgentRuntimeClient(d.dial())
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"fetch flights","turn_id":"t1","session_id":"s1"}`).status)
	refused := func(field string, want codes.Code, ask *pb.RerunTurnRequest) {
		t.Helper()
		_, err := c.RerunTurn(t.Context(), ask)
		require.Equal(t, want, status.Code(err), "%v", err)
		require.Contains(t, status.Convert(err).Message(), field)
	}
	refused("has not ended", codes.Aborted, &pb.RerunTurnRequest{RerunOf: "t1"})
	d.rt.Say("t1", "done")
	refused("rerun_of", codes.InvalidArgument, &pb.RerunTurnRequest{})
	refused("output_schema", codes.InvalidArgument, &pb.RerunTurnRequest{RerunOf: "t1", OutputSchema: "{"})
	refused("none", codes.NotFound, &pb.RerunTurnRequest{RerunOf: "none"})

	var header metadata.MD
	r, err := c.RerunTurn(t.Context(), &pb.RerunTurnRequest{RerunOf: "t1", FromStep: 2, Model: "large", SessionId: "try"}, grpc.Header(&header))
	require.NoError(t, err)
	require.Equal(t, []any{"t1", int64(2), "try"}, []any{r.GetRerunOf(), r.GetFromStep(), r.GetSessionId()})
	require.Equal(t, []string{r.GetTurnId()}, header.Get("turnstone-turn-id"))
	seen := d.rt.Submitted()
	asked := seen[len(seen)-1]
	require.Equal(t, []any{"grpc", "large", agent.TurnID("t1"), 2}, []any{asked.Channel, asked.Request.Model, asked.Request.Rerun.Of, asked.Request.Rerun.FromStep})
	v, err := c.GetTurn(t.Context(), &pb.GetTurnRequest{TurnId: r.GetTurnId()})
	require.NoError(t, err)
	require.Equal(t, "t1", v.GetRerunOf())
	list, err := c.ListTurns(t.Context(), &pb.ListTurnsRequest{RerunOf: "t1"})
	require.NoError(t, err)
	require.Len(t, list.GetTurns(), 1)
	require.Equal(t, r.GetTurnId(), list.GetTurns()[0].GetTurnId())

	forked, err := c.ForkSession(t.Context(), &pb.ForkSessionRequest{ForkedFrom: "s1", TurnId: "t1", SessionId: "copy"})
	require.NoError(t, err)
	require.Equal(t, []any{"copy", "s1", "t1", int64(1)}, []any{forked.GetSessionId(), forked.GetForkedFrom(), forked.GetTurnId(), forked.GetMessages()})
	for want, ask := range map[codes.Code]*pb.ForkSessionRequest{
		codes.NotFound: {}, codes.InvalidArgument: {ForkedFrom: "s1", SessionId: "a b"}, codes.Aborted: {ForkedFrom: "s1", SessionId: "s1"},
	} {
		_, err := c.ForkSession(t.Context(), ask)
		require.Equal(t, want, status.Code(err), "%v", err)
	}
}
