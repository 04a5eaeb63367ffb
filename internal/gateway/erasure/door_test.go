package erasure_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	door "github.com/turnstone-run/turnstone/internal/gateway/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// keeper notes what it is asked; it is the audit trail too.
type keeper struct {
	asked   []erasure.Request
	by      []string
	calls   []string
	records []agent.AuditRecord
}

func (k *keeper) Create(_ context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error) {
	k.asked, k.by = append(k.asked, r), append(k.by, p.Credential)
	return erasure.Erasure{ID: "e1", Tenant: r.Tenant, Status: erasure.StatusRequested, DryRun: r.DryRun}, nil
}

func (k *keeper) Get(_ context.Context, tenant, id string) (erasure.Erasure, error) {
	k.calls = append(k.calls, "get "+tenant+" "+id)
	if id != "e1" {
		return erasure.Erasure{}, agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is none")
	}
	return erasure.Erasure{ID: id, Report: &erasure.Report{ErasureID: id}}, nil
}

func (k *keeper) List(_ context.Context, tenant string, p agent.Page) (erasure.Page, error) {
	k.calls = append(k.calls, "list "+tenant+" "+p.Token)
	return erasure.Page{Next: "more"}, nil
}

func (k *keeper) Record(r agent.AuditRecord) { k.records = append(k.records, r) }

func open(t *testing.T) (k *keeper, ask func(key, method, path, body string) (int, string)) {
	t.Helper()
	k = &keeper{}
	d, err := door.New(k, k)
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", Runtime: gatewaytest.New(), Catalog: &gatewaytest.Catalog{}, Doors: []gateway.Door{d},
		Auth: gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "erasures.*"), "reads": gatewaytest.Caller("acme", "", "erasures.read"),
			"ops": gatewaytest.Caller(agent.AnyTenant, "", "*"), "user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
		},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	return k, func(key, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.HTTPAddr()+"/v1/erasures"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
}

func TestErasures(t *testing.T) {
	k, ask := open(t)
	status, body := ask("acme", http.MethodPost, "", `{"user_id":"ann","reason":"ticket 7","dry_run":true}`)
	require.Equal(t, http.StatusAccepted, status, body)
	require.Contains(t, body, `"erasure_id":"e1"`)
	require.Equal(t, erasure.Request{UserID: "ann", Tenant: "acme", Reason: "ticket 7", DryRun: true}, k.asked[0])
	require.Len(t, k.records, 1)
	require.Equal(t, []string{"acme", "erasures.write", "erasure/e1", `{"dry_run":true}`},
		[]string{k.records[0].Tenant, string(k.records[0].Action), k.records[0].Resource, string(k.records[0].Detail)})

	status, _ = ask("ops", http.MethodPost, "", `{"user_id":"ann","tenant":"zoo","reason":"r"}`)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "zoo", k.asked[1].Tenant)
	require.Equal(t, "zoo", k.records[1].Tenant)

	status, body = ask("reads", http.MethodGet, "/e1", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"report":{`)
	status, body = ask("reads", http.MethodGet, "?page_token=p", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"erasures":[],"next_page_token":"more"}`, body)
	require.Equal(t, []string{"get acme e1", "list acme p"}, k.calls)
}

func TestErasuresRefuse(t *testing.T) {
	k, ask := open(t)
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		says                    string
	}{
		{"user", http.MethodPost, "", `{"user_id":"ann","reason":"r"}`, 403, "erasures.write"},
		{"reads", http.MethodPost, "", `{"user_id":"ann","reason":"r"}`, 403, "erasures.write"},
		{"user", http.MethodGet, "", "", 403, "erasures.read"},
		{"user", http.MethodGet, "/e1", "", 403, "erasures.read"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","tenant":"zoo","reason":"r"}`, 403, "tenant"},
		{"acme", http.MethodPost, "", `{"reason":"r"}`, 400, "user_id"},
		{"acme", http.MethodPost, "", `{"user_id":"ann"}`, 400, "reason"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","reason":"ann wants it"}`, 400, "reason"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","reason":"r","force":true}`, 400, "force"},
		{"acme", http.MethodPost, "?x=1", `{"user_id":"ann","reason":"r"}`, 400, "x"},
		{"ops", http.MethodPost, "", `{"user_id":"ann","tenant":"a b","reason":"r"}`, 400, "tenant"},
		{"acme", http.MethodGet, "?page_size=-1", "", 400, "page_size"},
		{"acme", http.MethodGet, "/e2", "", 404, "erasure_id"},
	} {
		status, body := ask(c.key, c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%v: %s", c, body)
		require.Contains(t, body, c.says)
	}
	require.Empty(t, k.asked)
	require.Empty(t, k.records)
}
