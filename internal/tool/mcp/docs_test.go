package mcp

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// What the page about the toolkit shows is a configuration, or documents of the catalog.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/mcp.md")
	require.NoError(t, err)
	documents := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "kind:") {
			parsed, faults := manifest.Parse([]agent.ManifestFile{{Name: "page.yaml", Data: []byte(block[1])}})
			require.Empty(t, faults, block[1])
			documents += len(parsed)
			for _, d := range parsed {
				if b, ok := d.Value.(*agent.ToolBinding); ok {
					_, err := parseBinding(b.Parameters)
					require.NoError(t, err, block[1])
				}
			}
			continue
		}
		var shown struct {
			Tools struct {
				MCP struct {
					Servers []struct {
						Name, Command string
						Args, Env     []string
						Dir           string
					}
				}
			}
		}
		d := yaml.NewDecoder(bytes.NewReader([]byte(block[1])))
		d.KnownFields(true)
		require.NoError(t, d.Decode(&shown), block[1])
		require.NotEmpty(t, shown.Tools.MCP.Servers)
		for _, s := range shown.Tools.MCP.Servers {
			require.Regexp(t, serverName, s.Name)
			require.NotEmpty(t, s.Command)
			for _, entry := range s.Env {
				require.Regexp(t, `^[A-Z_]+=.`, entry)
			}
		}
	}
	require.Equal(t, 5, documents)
}
