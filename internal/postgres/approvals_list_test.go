package postgres_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func (b *bench) listed(q agent.ApprovalQuery) []string {
	b.t.Helper()
	ids := []string{}
	for pages := 0; ; pages++ {
		require.Less(b.t, pages, 100)
		page, err := b.ListApprovals(b.t.Context(), q)
		require.NoError(b.t, err)
		for _, a := range page.Approvals {
			require.NotEmpty(b.t, a.SessionID)
			require.Equal(b.t, "analyst", a.Agent)
			ids = append(ids, a.ApprovalID)
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
		require.NotEmpty(b.t, page.Approvals)
	}
}

func TestListApprovals(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(id, turnID string) {
		a := approval(id)
		a.TurnID = agent.TurnID(turnID)
		b.ask(a)
	}
	b.ready("t1", "s1")
	b.ready("t2", "s2")
	b.ready("t3", "s3")
	foreign := turn("f1", "s1")
	foreign.Tenant = "evil"
	b.begin(foreign)
	ask("ended", "t1")
	ask("decided in time", "t1")
	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "decided in time", Decision: agent.DecisionApprove, By: "ops"})
	require.NoError(t, err)
	b.finish(finish("t1", "s1"))
	for i := range 5 {
		ask(fmt.Sprintf("p%d", i), "t2")
	}
	ask("other", "t3")
	b.ask(func() agent.Approval {
		a := expiring("late", -time.Second, agent.ExpiryReject)
		a.TurnID = "t3"
		return a
	}())
	secret := approval("secret")
	secret.TurnID = "f1"
	require.NoError(t, b.SaveApproval(t.Context(), "evil", secret))

	all := []string{"decided in time", "p0", "p1", "p2", "p3", "p4", "other"}
	tests := map[string]struct {
		q    agent.ApprovalQuery
		want []string
	}{
		"both":         {agent.ApprovalQuery{}, all},
		"pending":      {agent.ApprovalQuery{State: "pending"}, all[1:]},
		"decided":      {agent.ApprovalQuery{State: "decided"}, all[:1]},
		"of a turn":    {agent.ApprovalQuery{TurnID: "t2"}, all[1:6]},
		"of a session": {agent.ApprovalQuery{SessionID: "s3"}, all[6:]},
		"of neither":   {agent.ApprovalQuery{TurnID: "t2", SessionID: "s3"}, []string{}},
		"every tenant": {agent.ApprovalQuery{Tenant: "*", State: "pending"}, append(all[1:len(all):len(all)], "secret")},
		"bad text":     {agent.ApprovalQuery{TurnID: "t2\x00\xff"}, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.q.Tenant == "" {
				test.q.Tenant = tenant
			}
			for _, limit := range []int{0, 1, 2, 3, 500} {
				test.q.Limit = limit
				require.Equal(t, test.want, b.listed(test.q), "limit %d", limit)
			}
		})
	}
}

func TestListApprovalsIsBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	for i := range 5 {
		a := approval(fmt.Sprint(i))
		a.Args = json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
		b.ask(a)
	}
	page, err := b.ListApprovals(t.Context(), agent.ApprovalQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 2)
	require.Len(t, b.listed(agent.ApprovalQuery{Tenant: tenant}), 5)
}

func TestListApprovalsRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, q := range map[string]agent.ApprovalQuery{
		"page_token 1": {After: "%%%"},
		"page_token 2": {After: token(`{}`)},
		"page_token 3": {After: token(`{"c":1,"t":"\u0000","a":"a"}`)},
		"page_token 4": {After: token(`{"c":9000000000000000000,"t":"t","a":"a"}`)},
		"page_token 5": {After: strings.Repeat("A", 1<<20)},
		"state":        {State: "open"},
		"limit 1":      {Limit: -1},
		"limit 2":      {Limit: 501},
	} {
		q.Tenant = tenant
		_, err := b.ListApprovals(t.Context(), q)
		requireCode(t, agent.CodeInvalid, err)
		requireField(t, strings.Fields(name)[0], err)
	}
}
