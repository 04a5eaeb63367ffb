package cli

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// shredder keeps erasures in memory; each ends when it is looked at for the second time.
type shredder struct {
	asked []erasure.Request
	kept  []erasure.Erasure
	looks map[string]int
	ends  erasure.Status
}

func (s *shredder) Create(_ context.Context, r erasure.Request, _ agent.Principal) (erasure.Erasure, error) {
	s.asked = append(s.asked, r)
	salt := []byte(strings.Repeat("s", erasure.SaltBytes))
	e := erasure.Erasure{
		ID: "e" + string(rune('0'+len(s.asked))), Tenant: r.Tenant, Status: erasure.StatusRequested, DryRun: r.DryRun, Reason: r.Reason, RequestedBy: "ops",
		Salt: hex.EncodeToString(salt), Subject: erasure.Subject(salt, r.Tenant, r.UserID), CreatedAt: gatewaytest.Epoch(),
	}
	s.kept = append(s.kept, e)
	return e, nil
}

func (s *shredder) Get(_ context.Context, _, id string) (erasure.Erasure, error) {
	at := slices.IndexFunc(s.kept, func(e erasure.Erasure) bool { return e.ID == id })
	if at < 0 {
		return erasure.Erasure{}, agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %q", id)
	}
	e := &s.kept[at]
	if s.looks[id]++; s.looks[id] < 2 || e.Status.Final() {
		return *e, nil
	}
	e.Status, e.FinishedAt = s.ends, new(gatewaytest.Epoch())
	if s.ends == erasure.StatusFailed {
		e.Error = "Temporal was away"
		return *e, nil
	}
	e.Report = &erasure.Report{
		ErasureID: id, Tenant: e.Tenant, Subject: e.Subject, Salt: e.Salt, RequestedBy: e.RequestedBy, Reason: e.Reason, DryRun: e.DryRun, Status: e.Status,
		StartedAt: gatewaytest.Epoch(), FinishedAt: gatewaytest.Epoch(), Turns: 2, Sessions: 1, Shared: 1, Executions: erasure.Executions{Found: 3},
		Content: erasure.Content{Found: 2}, Kinds: []erasure.Kind{{Name: "events"}, {Name: "turns", Found: 2}, {Name: "usage_ledger", Found: 1, Kept: "money"}},
	}
	if !e.DryRun {
		e.Report.Kinds = []erasure.Kind{{Name: "events"}, {Name: "turns", Removed: 2}, {Name: "usage_ledger", Unnamed: 1, Kept: "money"}}
		e.Report.Executions.Deleted, e.Report.Content = 3, erasure.Content{Found: 2, Removed: 1, Bytes: 100, Shared: 1}
	}
	if s.ends == erasure.StatusIncomplete {
		e.Report.Kinds[1].Remaining, e.Report.Kinds[1].Left = 1, "it was busy"
	}
	var err error
	e.Digest, err = e.Report.Digest()
	e.AuditDigest = e.Digest
	return *e, err
}

func (s *shredder) List(context.Context, string, agent.Page) (erasure.Page, error) {
	return erasure.Page{Erasures: s.kept}, nil
}

func shredding(t *testing.T) (*bench, *shredder) {
	t.Helper()
	s := &shredder{looks: map[string]int{}, ends: erasure.StatusCompleted}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Erasures = s }), s
}

func TestErase(t *testing.T) {
	b, s := shredding(t)
	line := func(in string, want int, args ...string) commandLine {
		return commandLine{in: in, args: args, want: want}
	}
	steps := func(steps ...commandLine) {
		t.Helper()
		for _, s := range steps {
			b.comment("$ starter " + strings.Join(s.args, " "))
			require.Equal(t, s.want, b.run(strings.NewReader(s.in), s.args...), "%s\n%s", s.args, b.screen.String())
		}
	}
	steps(
		line("", 0, "erase", "--user", "ann", "--reason", "ticket 7", "--dry-run"),
		line("no\n", exitUsage, "erase", "--user", "ann", "--reason", "ticket 7"),
		line("yes\n", 0, "erase", "--user", "ann", "--reason", "ticket 7", "--wait"),
		line("", 0, "erase", "--user", "bob", "--reason", "ticket 8", "--yes"),
		line("", 0, "erasures", "list"),
		line("", 0, "erasures", "get", "e4"),
		line("", 0, "erasures", "verify", "e4", "--user", "ann"),
		line("", exitFailed, "erasures", "verify", "e4", "--user", "bob"),
		line("", exitUsage, "erasures", "verify", "e5"),
		line("", exitUsage, "erasures", "get", "e9"),
	)
	require.Equal(t, []bool{true, true, true, false, false}, []bool{
		s.asked[0].DryRun, s.asked[1].DryRun, s.asked[2].DryRun, s.asked[3].DryRun, s.asked[4].DryRun,
	})
	s.kept[3].Report.Kinds[1].Removed++
	steps(line("", exitFailed, "erasures", "verify", "e4"))
	s.ends = erasure.StatusIncomplete
	steps(line("", exitFailed, "erase", "--user", "ann", "--reason", "ticket 9", "--yes", "--wait"))
	s.ends = erasure.StatusFailed
	steps(line("", exitFailed, "erase", "--user", "ann", "--reason", "ticket 9", "--yes", "--wait"))
	steps(line("yes\n", exitFailed, "erase", "--user", "ann", "--reason", "ticket 9"))
	golden(t, "erasures", b.screen.String())
}

func TestEraseUsage(t *testing.T) {
	b, s := shredding(t)
	b.refuses("", map[string]string{
		"--user: is missing":      "erase --reason r",
		"--reason: is missing":    "erase --user ann",
		"--reason: names the use": "erase --user ann --reason for:ann",
		"--limit is -1":           "erasures list --limit -1",
		"accepts 1 arg":           "erasures get",
	})
	require.Empty(t, s.asked)
}
