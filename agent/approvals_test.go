package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestApprovalPolicy(t *testing.T) {
	for policy, valid := range map[agent.ApprovalPolicy]bool{
		"": true, agent.ApprovalsWait: true, agent.ApprovalsRefuse: true, "pay": true, "pay, fetch_*": true,
		",": false, "*": false, "pay,wait": false, "a b": false, "p*y": false, agent.ApprovalPolicy(strings.Repeat("a,", 129)): false,
	} {
		require.Equal(t, valid, policy.Validate("approvals") == nil, "%s", policy)
	}
	p := agent.ApprovalPolicy("pay, fetch_*")
	require.Equal(t, []bool{true, true, false, false}, []bool{p.Allows("pay"), p.Allows("fetch_x"), p.Allows("pay2"), p.Allows("wait")})
	require.False(t, agent.ApprovalsWait.Allows("wait"))
}

// An approval ID may hold what a model made up, so DecideCommand quotes it as one word of the shell.
func TestDecideCommand(t *testing.T) {
	for id, want := range map[string]string{"job-1.1.a": "job-1.1.a", "t.1.a; rm -rf ~": "'t.1.a; rm -rf ~'", "t.1.'$(x)": `'t.1.'\''$(x)'`} {
		a := agent.Approval{ApprovalID: id}
		require.Equal(t, "starter approvals decide "+want+" approve --by NAME", a.DecideCommand())
	}
}
