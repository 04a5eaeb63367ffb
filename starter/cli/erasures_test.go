package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// withErasures is a bench whose gateway has erasures.
func withErasures(t *testing.T) (*bench, *gatewaytest.Erasures) {
	t.Helper()
	s := &gatewaytest.Erasures{Ends: map[string]erasure.Status{
		"e6": erasure.StatusIncomplete, "e7": erasure.StatusFailed, "e8": erasure.StatusFailed,
	}}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Erasures = s }), s
}

func TestErase(t *testing.T) {
	b, s := withErasures(t)
	b.steps("",
		line(0, "erase", "--user", "ann", "--reason", "ticket 7", "--dry-run"),
		commandLine{"no\n", []string{"erase", "--user", "ann", "--reason", "ticket 7"}, exitUsage},
		commandLine{"yes\n", []string{"erase", "--user", "ann", "--reason", "ticket 7", "--wait"}, 0},
		line(0, "erase", "--user", "bob", "--reason", "ticket 8", "--yes"),
		line(0, "erasures", "list"),
		line(0, "erasures", "get", "e4"),
		line(0, "erasures", "verify", "e4", "--user", "ann"),
		line(exitFailed, "erasures", "verify", "e4", "--user", "bob"),
		line(exitUsage, "erasures", "verify", "e5"),
		line(exitUsage, "erasures", "get", "e9"),
	)
	require.Equal(t, []bool{true, true, true, false, false}, []bool{
		s.Asked[0].DryRun, s.Asked[1].DryRun, s.Asked[2].DryRun, s.Asked[3].DryRun, s.Asked[4].DryRun,
	})
	s.Kept[3].Report.Kinds[1].Removed++
	b.steps("", line(exitFailed, "erasures", "verify", "e4"))
	again := []string{"erase", "--user", "ann", "--reason", "ticket 9"}
	b.steps("", line(exitFailed, append(again, "--yes", "--wait")...), line(exitFailed, append(again, "--yes", "--wait")...), commandLine{"yes\n", again, exitFailed})
	golden(t, "erasures", b.screen.String())
}

func TestEraseUsage(t *testing.T) {
	b, s := withErasures(t)
	b.refuses("", map[string]string{
		"--user: is missing":      "erase --reason r",
		"--reason: is missing":    "erase --user ann",
		"--reason: names the use": "erase --user ann --reason for:ann",
		"--limit is -1":           "erasures list --limit -1",
		"accepts 1 arg":           "erasures get",
	})
	require.Empty(t, s.Asked)
}
