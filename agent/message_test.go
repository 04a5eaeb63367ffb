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

func TestMediaIsStandardBase64(t *testing.T) {
	for content, valid := range map[string]bool{"aGVsbG8=": true, "aGVsbG8": false, "aGVsbG8=x": false, "a_-b": false, "!!": false} {
		image := agent.Block{Type: agent.BlockImage, Base64: content, MIMEType: "image/png"}
		if err := image.Validate("blocks[0]"); valid {
			require.NoError(t, err, content)
		} else {
			require.ErrorContains(t, err, "blocks[0].base64: is not standard base64", content)
		}
	}
}
