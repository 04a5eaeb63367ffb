package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

const (
	clerkDraft  = `{\"kind\":\"AgentInstance\",\"tenant\":\"acme\",\"name\":\"clerk\"}`
	sharedDraft = `{\"kind\":\"AgentInstance\",\"tenant\":\"*\",\"name\":\"clerk\"}`
	maker       = "turns.run:clerk,turns.read,catalog.write:AgentInstance/clerk"
)

// A draft answers for who may apply it and run it, and for nobody else.
func TestDraftNeedsTheRightToApplyIt(t *testing.T) {
	d, _ := with(t, "*", maker, "turns.run,turns.read", "turns.run:clerk,turns.read,catalog.write:AgentInstance/other", "turns.run:other,turns.read,catalog.write")
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"old","agent":"clerk"}`, bearer("*")...).status)
	d.rt.Say("old", "done")
	for key, want := range map[string]int{
		maker: 202, "turns.run,turns.read": 403, "turns.run:clerk,turns.read,catalog.write:AgentInstance/other": 403, "turns.run:other,turns.read,catalog.write": 403,
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
	d, _ := with(t, maker)
	key := bearer(maker)
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
	ctx := as(t.Context(), maker)
	r, err := c.RerunTurn(ctx, &pb.RerunTurnRequest{RerunOf: id, Draft: text})
	require.NoError(t, err)
	v, err := c.GetTurn(ctx, &pb.GetTurnRequest{TurnId: r.GetTurnId()})
	require.NoError(t, err)
	require.True(t, v.GetDraft())
	_, err = c.Invoke(ctx, &pb.TurnRequest{Message: "x", Draft: `{"kind":"AgentInstance","tenant":"acme","name":"other"}`})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
