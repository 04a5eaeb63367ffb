package gateway_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// requestApprovals starts a turn that waits for decisions on some approvals.
func (d *testGateway) requestApprovals(turn, session, tenant string, ids ...string) {
	d.t.Helper()
	a := d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"`+turn+`","session_id":"`+session+`","context":{"tenant":"`+tenant+`"}}`)
	require.Equal(d.t, 202, a.status, "%s", a.body)
	for _, id := range ids {
		expires := gatewaytest.Epoch().Add(time.Hour)
		d.rt.Emit(agent.TurnID(turn), agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
			ApprovalID: id, TurnID: agent.TurnID(turn), CallID: "c", Step: 1, ToolName: "send_mail", Args: json.RawMessage(`{"to":"x"}`),
			Rule: "not inherently safe", Description: "sends a mail", Allowed: []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject},
			ExpiresAt: &expires, OnExpiry: agent.ExpiryReject, Remember: agent.RememberCall,
		}})
	}
	d.rt.Emit(agent.TurnID(turn), gatewaytest.Status(agent.StatusWaiting))
}

func approvalResolved(id string) agent.Event {
	return agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
		ApprovalID: id, Decision: agent.DecisionApprove, By: "ops", Remembered: true,
	}}
}

type approvalList struct {
	Approvals []agent.Approval `json:"approvals"`
	Next      string           `json:"next_page_token"`
}

func TestApprovals(t *testing.T) {
	d := startGateway(t, nil)
	d.requestApprovals("t.1", "s", "default", "t.1.1.c", "t.1.2.c/d")
	d.requestApprovals("t.2", "r", "default", "t.2.1.c")
	d.requestApprovals("u", "s", "acme", "u.1.c")
	d.rt.Emit("t.2", approvalResolved("t.2.1.c"))
	cases := map[string]struct {
		query string
		want  []string
	}{
		"all":       {"", []string{"t.1.1.c", "t.1.2.c/d", "t.2.1.c"}},
		"pending":   {"?state=pending", []string{"t.1.1.c", "t.1.2.c/d"}},
		"decided":   {"?state=decided", []string{"t.2.1.c"}},
		"session":   {"?session_id=r", []string{"t.2.1.c"}},
		"turn":      {"?turn_id=t.1&state=pending", []string{"t.1.1.c", "t.1.2.c/d"}},
		"tenant":    {"?tenant=acme", []string{"u.1.c"}},
		"nothing":   {"?session_id=none", []string{}},
		"next page": {"?page_size=1&page_token=1", []string{"t.1.2.c/d"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.send("GET", "/v1/approvals"+c.query, "")
			require.Equal(t, 200, a.status, "%s", a.body)
			got := []string{}
			for _, found := range decode[approvalList](t, a).Approvals {
				got = append(got, found.ApprovalID)
			}
			require.Equal(t, c.want, got)
		})
	}
	require.Equal(t, "1", decode[approvalList](t, d.send("GET", "/v1/approvals?page_size=1", "")).Next)
	require.JSONEq(t, `{"approvals":[],"next_page_token":""}`, string(d.send("GET", "/v1/approvals?session_id=none", "").body))
	for query, field := range map[string]string{
		"state=maybe": "state", "session_id=a%20b": "session_id", "turn_id=a%2Fb": "turn_id", "page_size=1001": "page_size", "page_size=-1": "page_size",
		"page_token=x": "page_token", "tenant=a%20b": "tenant",
	} {
		a := d.send("GET", "/v1/approvals?"+query, "")
		require.Equal(t, 400, a.status, query)
		require.Equal(t, field, a.failure(t).Field, query)
	}
	require.Equal(t, 400, d.send("GET", "/v1/approvals?tenant=acme", "", "Turnstone-Tenant", "other").status)

	// The same approvals over gRPC.
	c := pb.NewAgentRuntimeClient(d.dial())
	list, err := c.ListApprovals(t.Context(), &pb.ListApprovalsRequest{State: "pending", SessionId: "s", TurnId: "t.1", PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, "1", list.GetNextPageToken())
	a := list.GetApprovals()[0]
	require.Equal(t, []string{"approve", "reject"}, a.GetAllowedDecisions())
	require.Equal(t, gatewaytest.Epoch().Add(time.Hour), a.GetExpiresAt().AsTime())
	require.Equal(t, []string{"sends a mail", "reject", "call", "default", "s", "analyst"},
		[]string{a.GetDescription(), a.GetOnExpiry(), a.GetRemember(), a.GetTenant(), a.GetSessionId(), a.GetAgent()})
	acme := metadata.AppendToOutgoingContext(t.Context(), "turnstone-tenant", "acme")
	list, err = c.ListApprovals(acme, &pb.ListApprovalsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetApprovals(), 1)
	_, err = c.ListApprovals(t.Context(), &pb.ListApprovalsRequest{State: "maybe"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = c.ListApprovals(t.Context(), &pb.ListApprovalsRequest{PageSize: -1})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestApprovalByID(t *testing.T) {
	d := startGateway(t, nil)
	d.requestApprovals("t.1", "s", "acme", "t.1.2.c/d")
	a := d.send("GET", "/v1/approvals/t.1.2.c%2Fd", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, "t.1", a.header.Get("Turnstone-Turn-Id"))
	require.JSONEq(t, `{"approval_id":"t.1.2.c/d","turn_id":"t.1","call_id":"c","step":1,"tool_name":"send_mail","args":{"to":"x"},
		"rule":"not inherently safe","tenant":"acme","session_id":"s","agent":"analyst","description":"sends a mail",
		"allowed_decisions":["approve","reject"],"expires_at":"2026-11-21T13:00:00Z","on_expiry":"reject","remember":"call",
		"created_at":"2026-11-21T12:00:00Z"}`, string(a.body))
	require.Contains(t, string(d.send("GET", "/v1/turns/t.1", "").body), `"allowed_decisions":["approve","reject"]`)
	for _, path := range []string{"t.1.2.c%2Fd?tenant=other", "nope", "%0a"} {
		a := d.send("GET", "/v1/approvals/"+path, "")
		require.Equal(t, 404, a.status, path)
		require.Equal(t, "not_found", a.failure(t).Type)
	}
	require.Equal(t, "x", d.send("GET", "/v1/approvals/t.1.2.c%2Fd?x=1", "").failure(t).Field)
}

// The error of the port for a decision reaches the client over HTTP and gRPC.
func TestDecisionsKeepTheirMeaning(t *testing.T) {
	d := startGateway(t, nil)
	d.requestApprovals("t", "s", "acme", "a")
	var got agent.Decision
	var refusal error
	d.rt.Decided = func(_ agent.TurnID, v agent.Decision) error { got = v; return refusal }
	c := pb.NewAgentRuntimeClient(d.dial())
	cases := map[string]struct {
		refusal error
		http    int
		grpc    codes.Code
		field   string
	}{
		"taken":         {nil, 200, codes.OK, ""},
		"twice":         {agent.Errorf(agent.CodeConflict, "", "approval a is decided already"), 409, codes.Aborted, ""},
		"too late":      {agent.Errorf(agent.CodeConflict, "", "approval a expired"), 409, codes.Aborted, ""},
		"breaks schema": {agent.Invalid("args.to", "want a string"), 400, codes.InvalidArgument, "args.to"},
		"not allowed":   {agent.Invalid("decision", "want approve or reject"), 400, codes.InvalidArgument, "decision"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			refusal = tc.refusal
			want := agent.Decision{ApprovalID: "a", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"to":1}`), Remember: true, By: "ops"}
			a := d.send("POST", "/v1/turns/t/decisions", `{"approval_id":"a","decision":"edit","args":{"to":1},"remember":true,"by":"ops"}`)
			require.Equal(t, tc.http, a.status, "%s", a.body)
			require.Equal(t, want, got)
			if tc.refusal != nil {
				require.Equal(t, tc.field, a.failure(t).Field)
			}
			got = agent.Decision{}
			_, err := c.Decide(t.Context(), &pb.DecideRequest{
				TurnId: "t", ApprovalId: "a", Decision: "edit", Args: `{"to":1}`, Remember: true, By: "ops",
			})
			require.Equal(t, tc.grpc, status.Code(err))
			require.Equal(t, want, got)
			if tc.field != "" {
				require.Equal(t, tc.field, detail[*pb.Failure](t, err).GetField())
			}
		})
	}
	got = agent.Decision{}
	require.Equal(t, 404, d.send("POST", "/v1/turns/t/decisions?tenant=other", `{"approval_id":"a","decision":"approve"}`).status)
	require.Empty(t, got, "another tenant's decision goes nowhere")
}
