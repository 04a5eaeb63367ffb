package gatewaytest

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// Erasures is a [gateway.Erasures] in memory. Its ids are e1, e2 and so on. An erasure ends at the second Get. It is not safe for concurrent use.
type Erasures struct {
	Ends  map[string]erasure.Status // the final status by id; default: completed
	Asked []erasure.Request
	Kept  []erasure.Erasure
	Calls []string // the method and the arguments of each call

	seen map[string]bool // by Get
}

// Create implements [gateway.Erasures].
func (s *Erasures) Create(_ context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error) {
	s.Asked = append(s.Asked, r)
	salt := []byte(strings.Repeat("s", erasure.SaltBytes))
	e := erasure.Erasure{
		ID: fmt.Sprintf("e%d", len(s.Asked)), Tenant: r.Tenant, Status: erasure.StatusRequested, DryRun: r.DryRun, Reason: r.Reason,
		RequestedBy: cmp.Or(p.Subject, "ops"), Salt: hex.EncodeToString(salt), Subject: erasure.Subject(salt, r.Tenant, r.UserID), CreatedAt: Epoch(),
	}
	s.Kept = append(s.Kept, e)
	return e, nil
}

// Get implements [gateway.Erasures].
func (s *Erasures) Get(_ context.Context, tenant, id string) (erasure.Erasure, error) {
	s.Calls = append(s.Calls, "get "+tenant+" "+id)
	i := slices.IndexFunc(s.Kept, func(e erasure.Erasure) bool { return e.ID == id })
	if i < 0 {
		return erasure.Erasure{}, agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %q", id)
	}
	e := &s.Kept[i]
	if !s.seen[id] || e.Status.Final() {
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
		s.seen[id] = true
		return *e, nil
	}
	e.Status, e.FinishedAt = cmp.Or(s.Ends[id], erasure.StatusCompleted), new(Epoch())
	if e.Status == erasure.StatusFailed {
		e.Error = "Temporal was away"
		return *e, nil
	}
	e.Report = report(e)
	var err error
	e.Digest, err = e.Report.Digest()
	e.AuditDigest = e.Digest
	return *e, err
}

func report(e *erasure.Erasure) *erasure.Report {
	r := &erasure.Report{
		ErasureID: e.ID, Tenant: e.Tenant, Subject: e.Subject, Salt: e.Salt, RequestedBy: e.RequestedBy, Reason: e.Reason, DryRun: e.DryRun, Status: e.Status,
		StartedAt: Epoch(), FinishedAt: Epoch(), Turns: 2, Sessions: 1, Shared: 1, Executions: erasure.Executions{Found: 3},
		Content: erasure.Content{Found: 2}, Kinds: []erasure.Kind{{Name: "events"}, {Name: "turns", Found: 2}, {Name: "usage_ledger", Found: 1, Kept: "money"}},
		Kept: []erasure.Kind{{Name: "catalog_head", Kept: "it is nobody's"}},
	}
	if !e.DryRun {
		r.Kinds = []erasure.Kind{{Name: "events"}, {Name: "turns", Removed: 2}, {Name: "usage_ledger", Unnamed: 1, Kept: "money"}}
		r.Executions.Deleted, r.Content = 3, erasure.Content{Found: 2, Removed: 1, Bytes: 100, Shared: 1}
	}
	if e.Status == erasure.StatusIncomplete {
		r.Kinds[1].Remaining, r.Kinds[1].Left = 1, "it was busy"
	}
	return r
}

// List implements [gateway.Erasures].
func (s *Erasures) List(_ context.Context, tenant string, p agent.Page) (erasure.Page, error) {
	s.Calls = append(s.Calls, "list "+tenant+" "+p.Token)
	return erasure.Page{Erasures: s.Kept}, nil
}
