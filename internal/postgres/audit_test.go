package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func record(n int, change func(*agent.AuditRecord)) agent.AuditRecord {
	r := agent.AuditRecord{
		At: at(time.Duration(n) * time.Second), Tenant: tenant, Subject: "u1", Method: agent.MethodKey, Credential: "key/k1", Action: agent.ActionTurnsRun,
		Resource: fmt.Sprintf("turn/%d", n), Outcome: agent.AuditAllowed, Channel: "http", RequestID: "r1", Remote: "127.0.0.1:1",
		Detail: json.RawMessage(`{"mode": "direct"}`),
	}
	if change != nil {
		change(&r)
	}
	return r
}

func (b *bench) audit(q agent.AuditQuery) (page agent.AuditPage, resources string) {
	b.t.Helper()
	page, err := b.ListAudit(b.t.Context(), q)
	require.NoError(b.t, err)
	require.NotNil(b.t, page.Records)
	var all []string
	for _, r := range page.Records {
		all = append(all, r.Resource)
	}
	return page, strings.Join(all, " ")
}

func TestAuditIsKeptInOrder(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.NoError(t, b.AppendAudit(t.Context(), nil))
	var batch []agent.AuditRecord
	for n := range 1200 {
		batch = append(batch, record(n, nil))
	}
	require.NoError(t, b.AppendAudit(t.Context(), batch))
	page, _ := b.audit(agent.AuditQuery{Tenant: tenant, Limit: 1})
	want := batch[1199]
	want.ID = page.Records[0].ID
	require.Equal(t, want, page.Records[0])

	var seen int
	last := int64(1 << 62)
	q := agent.AuditQuery{Tenant: tenant, Limit: 500}
	for {
		page, _ := b.audit(q)
		for _, r := range page.Records {
			require.Less(t, r.ID, last)
			require.Equal(t, fmt.Sprintf("turn/%d", 1199-seen), r.Resource, "in the given order")
			last = r.ID
			seen++
		}
		if q.Before = page.Next; q.Before == 0 {
			break
		}
	}
	require.Equal(t, 1200, seen)
	page, _ = b.audit(agent.AuditQuery{Tenant: tenant})
	require.Len(t, page.Records, 50)
	requireCode(t, agent.CodeOverflow, b.AppendAudit(t.Context(), make([]agent.AuditRecord, 10_001)))
	for _, limit := range []int{-1, 501} {
		_, err := b.ListAudit(t.Context(), agent.AuditQuery{Tenant: tenant, Limit: limit})
		requireCode(t, agent.CodeInvalid, err)
	}
}

func TestAuditIsFiltered(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{
		record(0, nil),
		record(1, func(r *agent.AuditRecord) { r.Tenant = "other" }),
		record(2, func(r *agent.AuditRecord) { r.Tenant = "" }),
		record(3, func(r *agent.AuditRecord) { r.Subject = "u2" }),
		record(4, func(r *agent.AuditRecord) { r.Action = agent.ActionTurnsRead }),
		record(5, func(r *agent.AuditRecord) { r.Action = agent.ActionKeysWrite }),
		record(6, func(r *agent.AuditRecord) { r.Outcome = agent.AuditDenied }),
		record(7, func(r *agent.AuditRecord) { r.Subject, r.Outcome = "u2", agent.AuditDenied }),
	}))
	for name, test := range map[string]struct {
		q    agent.AuditQuery
		want string
	}{
		"tenant":       {agent.AuditQuery{Tenant: tenant}, "turn/7 turn/6 turn/5 turn/4 turn/3 turn/0"},
		"no tenant":    {agent.AuditQuery{}, "turn/2"},
		"all":          {agent.AuditQuery{Tenant: agent.AnyTenant}, "turn/7 turn/6 turn/5 turn/4 turn/3 turn/2 turn/1 turn/0"},
		"unknown":      {agent.AuditQuery{Tenant: "acm"}, ""},
		"subject":      {agent.AuditQuery{Tenant: tenant, Subject: "u2"}, "turn/7 turn/3"},
		"action":       {agent.AuditQuery{Tenant: tenant, Action: "turns.read"}, "turn/4"},
		"no prefix":    {agent.AuditQuery{Tenant: tenant, Action: "turns."}, ""},
		"prefix":       {agent.AuditQuery{Tenant: tenant, Action: "turns.*", Subject: "u1"}, "turn/6 turn/4 turn/0"},
		"any action":   {agent.AuditQuery{Tenant: "other", Action: "*"}, "turn/1"},
		"no pattern":   {agent.AuditQuery{Tenant: tenant, Action: "%*"}, ""},
		"outcome":      {agent.AuditQuery{Tenant: tenant, Outcome: agent.AuditDenied}, "turn/7 turn/6"},
		"since":        {agent.AuditQuery{Tenant: tenant, Since: at(6 * time.Second)}, "turn/7 turn/6"},
		"several":      {agent.AuditQuery{Tenant: tenant, Outcome: agent.AuditDenied, Subject: "u1", Since: at(0)}, "turn/6"},
		"broken words": {agent.AuditQuery{Tenant: tenant, Subject: "u\x001\xff"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			page, got := (&bench{Store: b.Store, t: t}).audit(test.q)
			require.Equal(t, test.want, got)
			require.Zero(t, page.Next)
		})
	}
	page, got := b.audit(agent.AuditQuery{Tenant: tenant, Limit: 2})
	require.Equal(t, "turn/7 turn/6", got)
	page, got = b.audit(agent.AuditQuery{Tenant: tenant, Limit: 4, Before: page.Next})
	require.Equal(t, "turn/5 turn/4 turn/3 turn/0", got)
	require.Zero(t, page.Next, "there is no page after the last full one")
}

func TestAuditStoresAnyRecord(t *testing.T) {
	b := newBench(t, postgres.Config{})
	details := []string{
		`{"a":"\u0000 \ud800"}`, `{"n":1e999999}`, `{broken`, `{"a":"` + strings.Repeat("x", 10_000) + `"}`, "{\"a\":\"\xff\"}", ``, `null`,
		strings.Repeat("[", 3000) + strings.Repeat("]", 3000),
	}
	var batch []agent.AuditRecord
	for n, detail := range details {
		batch = append(batch, record(n, func(r *agent.AuditRecord) {
			r.Detail, r.Subject, r.Resource = json.RawMessage(detail), "a\x00b\xff", strings.Repeat("é", 2000)
		}))
	}
	before := time.Now().Add(-time.Minute)
	batch[0].At = time.Time{}
	require.NoError(t, b.AppendAudit(t.Context(), batch))
	page, _ := b.audit(agent.AuditQuery{Tenant: tenant})
	require.Len(t, page.Records, len(details))
	var kept []string
	for i := range page.Records {
		r := page.Records[len(details)-1-i]
		require.Equal(t, "ab\ufffd", r.Subject)
		require.Equal(t, strings.Repeat("é", 512), r.Resource)
		kept = append(kept, string(r.Detail))
	}
	require.Equal(t, []string{
		`{"a": "� �"}`, `{"n": null}`, `{"omitted_bytes":7}`, `{"omitted_bytes":10008}`, `{"a": "�"}`, "", "",
	}, tidy(kept[:7]))
	require.WithinRange(t, page.Records[len(details)-1].At, before, time.Now().Add(time.Minute))
}

// tidy removes the spaces that jsonb adds to short details.
func tidy(details []string) []string {
	for i, d := range details {
		details[i] = strings.ReplaceAll(d, `"omitted_bytes": `, `"omitted_bytes":`)
	}
	return details
}

func TestAuditCannotBeChanged(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for n := range 30 {
		require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{record(n, nil)}))
	}
	untouched := func() {
		t.Helper()
		for _, sql := range []string{
			`UPDATE audit_log SET outcome = 'allowed'`, `UPDATE audit_log SET subject = 'x' WHERE false`, `DELETE FROM audit_log`, `TRUNCATE audit_log`,
			`INSERT INTO audit_log (id, at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote)
				VALUES (1, now(), '', '', '', '', '', '', '', '', '', '')`,
		} {
			_, err := b.pool.Exec(context.WithoutCancel(t.Context()), sql)
			require.Error(t, err, sql)
		}
	}
	untouched()
	require.Equal(t, 30, b.count("audit_log"))

	gone, err := b.ExpireAudit(t.Context(), at(10*time.Second), 4)
	require.NoError(t, err)
	require.Equal(t, 4, gone)
	_, got := b.audit(agent.AuditQuery{Tenant: tenant, Before: 8})
	require.Equal(t, "turn/6 turn/5 turn/4", got, "the oldest are removed first")
	gone, err = b.ExpireAudit(t.Context(), at(10*time.Second), 0)
	require.NoError(t, err)
	require.Equal(t, 6, gone)
	gone, err = b.ExpireAudit(t.Context(), at(10*time.Second), 0)
	require.NoError(t, err)
	require.Zero(t, gone)
	require.Equal(t, 20, b.count("audit_log"))
	untouched()
}
