package cli

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/retention"
)

func TestRetention(t *testing.T) {
	fake := gatewaytest.NewRetention()
	b := setupWith(t, func(cfg *gateway.Config) { cfg.Retention = fake })
	b.steps("retention",
		line(0),
		line(0, "--limit", "1"),
		line(exitUsage, "--limit", "-1"),
		line(0, "--tenant", "acme"),
		line(0, "run", "--dry-run"),
		line(0, "run"),
		line(0, "pause", "--reason", "restoring a backup"),
		line(0, "resume"),
		line(0, "pause", "-o", "json"),
		line(0, "--tenant", "acme", "-o", "json"),
		line(exitUsage, "run", "now"),
	)
	fake.Status = retention.Status{}
	b.steps("retention", line(0, "--limit", "1"), line(exitUsage, "run"))
	golden(t, "retention", b.screen.String())
}
