package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestNormalizeOutput(t *testing.T) {
	for want, blocks := range map[string][]agent.Block{
		"No output from agent.":        nil,
		"No text content in response.": {{Type: agent.BlockImage, URL: "http://x/y.png"}},
		"one, two":                     {agent.Text("one, "), {Type: agent.BlockReasoning, Reasoning: "hm"}, agent.Text("two")},
		"plain":                        {agent.Text("plain")},
	} {
		require.Equal(t, want, agent.NormalizeOutput(blocks))
	}
}
