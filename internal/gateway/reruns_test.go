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

// A rerun and a fork over gRPC.
func TestRerunThroughGRPC(t *testing.T) {
	d := startGateway(t, nil)
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
	asked := d.lastSubmitted()
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

const (
	clerkDraft  = `{\"kind\":\"AgentInstance\",\"tenant\":\"acme\",\"name\":\"clerk\"}`
	sharedDraft = `{\"kind\":\"AgentInstance\",\"tenant\":\"*\",\"name\":\"clerk\"}`
	makerScopes = "turns.run:clerk,turns.read,catalog.write:AgentInstance/clerk"
)

// A turn of a draft needs the permissions to apply the draft and to run its agent.
func TestDraftNeedsTheRightToApplyIt(t *testing.T) {
	d, _ := startWithScopes(t, "*", makerScopes, "turns.run,turns.read", "turns.run:clerk,turns.read,catalog.write:AgentInstance/other", "turns.run:other,turns.read,catalog.write")
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"old","agent":"clerk"}`, bearer("*")...).status)
	d.rt.Say("old", "done")
	for key, want := range map[string]int{
		makerScopes: 202, "turns.run,turns.read": 403, "turns.run:clerk,turns.read,catalog.write:AgentInstance/other": 403, "turns.run:other,turns.read,catalog.write": 403,
	} {
		for path, body := range map[string]string{"/v1/turns": `"message":"x"`, "/v1/turns/old/rerun": `"from_step":0`} {
			before := len(d.rt.Submitted())
			a := d.send("POST", path+"?wait=false", `{`+body+`,"draft":"`+clerkDraft+`"}`, bearer(key)...)
			require.Equal(t, want, a.status, "%s %s: %s", key, path, a.body)
			a = d.send("POST", path+"?wait=false", `{`+body+`,"draft":"`+sharedDraft+`"}`, bearer(key)...)
			require.Equal(t, 403, a.status, "shared agents are not a tenant's: %s", a.body)
			if want == 202 {
				before++
			}
			require.Len(t, d.rt.Submitted(), before)
		}
	}
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","draft":"`+sharedDraft+`"}`, bearer("any")...).status)
}

func TestDraft(t *testing.T) {
	d, _ := startWithScopes(t, makerScopes)
	key := bearer(makerScopes)
	id := decode[map[string]any](t, d.send("POST", "/v1/turns?wait=false", `{"message":"x","draft":"`+clerkDraft+`"}`, key...))["turn_id"].(string)
	sent := d.rt.Submitted()[0].Request
	require.Equal(t, []any{"clerk", "clerk", "sha256:draft"}, []any{sent.Agent, sent.Draft.Agent, sent.Draft.PlanHash})
	require.Equal(t, true, decode[map[string]any](t, d.send("GET", "/v1/turns/"+id, "", key...))["draft"])
	d.rt.Say(agent.TurnID(id), "done")
	require.Equal(t, true, decode[map[string]any](t, d.send("GET", "/v1/turns/"+id, "", key...))["draft"])

	for body, field := range map[string]string{
		`"message":"x","agent":"other","draft":"` + clerkDraft + `"`: "agent",
		`"message":"x","draft":"# none"`:                             "draft",
		`"message":"x","draft":{}`:                                   "draft",
	} {
		a := d.send("POST", "/v1/turns", `{`+body+`}`, key...)
		require.Equal(t, 400, a.status, "%s", a.body)
		require.Contains(t, string(a.body), `"field":"`+field+`"`)
	}
	require.Equal(t, 400, d.send("POST", "/v1/turns/"+id+"/messages", `{"message":"x","draft":"`+clerkDraft+`"}`, key...).status, "only a new turn has a draft")

	c := pb.NewAgentRuntimeClient(d.dial())
	text := `{"kind":"AgentInstance","tenant":"acme","name":"clerk"}`
	ctx := withBearer(t.Context(), makerScopes)
	r, err := c.RerunTurn(ctx, &pb.RerunTurnRequest{RerunOf: id, Draft: text})
	require.NoError(t, err)
	v, err := c.GetTurn(ctx, &pb.GetTurnRequest{TurnId: r.GetTurnId()})
	require.NoError(t, err)
	require.True(t, v.GetDraft())
	_, err = c.Invoke(ctx, &pb.TurnRequest{Message: "x", Draft: `{"kind":"AgentInstance","tenant":"acme","name":"other"}`})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
