package turns

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestPriced(t *testing.T) {
	used := agent.Usage{InputTokens: 100, CachedTokens: 60, OutputTokens: 10}
	m := agent.PlanModel{InputPerMTok: 10, CachedPerMTok: 1, OutputPerMTok: 50}
	got := withCost(used, m)
	require.InDelta(t, (40*10+60*1+10*50)/1e6, got.CostUSD, 1e-12)
	require.False(t, got.Unpriced)

	unpriced := withCost(used, agent.PlanModel{})
	require.True(t, unpriced.Unpriced)
	require.Zero(t, unpriced.CostUSD)
	require.Zero(t, withCost(agent.Usage{}, agent.PlanModel{}), "no tokens cost nothing")

	sum := got.Add(unpriced)
	require.True(t, sum.Unpriced, "a sum with an unpriced part is unpriced")
	require.InDelta(t, got.CostUSD, sum.CostUSD, 1e-12)
}
