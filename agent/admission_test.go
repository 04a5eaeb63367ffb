package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestAdmissionRefusedError(t *testing.T) {
	for want, r := range map[string]agent.AdmissionRefused{
		`tenant "acme" has 3 of 3 turns at once`:                                     {agent.BoundTenant, "acme", agent.BoundConcurrentTurns, 3, 3},
		`user "u1" has begun 11 of 10 turns within a minute`:                         {agent.BoundUser, "u1", agent.BoundRequestsPerMinute, 10, 11},
		`agent "a" has used 12000000 of 10000000 tokens within a minute`:             {agent.BoundAgent, "a", agent.BoundTokensPerMinute, 1e7, 1.2e7},
		`the budget of tenant "acme" for today is used up (5.02 of 5.00 USD)`:        {agent.BoundTenant, "acme", agent.BoundDailyCost, 5, 5.02},
		`the budget of user "\x00" for this month is used up (0.0005 of 0.0004 USD)`: {agent.BoundUser, "\x00", agent.BoundMonthlyCost, 0.0004, 0.0005},
		`the budget of agent "a" for today is used up (10 of 10 tokens)`:             {agent.BoundAgent, "a", agent.BoundDailyTokens, 10, 10},
		`the budget of agent "a" for this month is used up (11 of 10 tokens)`:        {agent.BoundAgent, "a", agent.BoundMonthlyTokens, 10, 11},
		`tenant "acme" is at its bound new_bound: 1.5 of 1`:                          {agent.BoundTenant, "acme", "new_bound", 1, 1.5},
	} {
		require.EqualError(t, r, want)
	}
}
