package retention_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	door "github.com/turnstone-run/turnstone/internal/gateway/retention"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// keeper notes what it is asked.
type keeper struct {
	calls []string
	said  []string // into the audit trail
	err   error
}

func (k *keeper) Record(r agent.AuditRecord) {
	k.said = append(k.said, r.Outcome+" "+r.Resource+" by "+r.Subject)
}

// trail takes what was recorded.
func (k *keeper) trail() []string {
	said := k.said
	k.said = nil
	return said
}

func (k *keeper) Report(_ context.Context, tenant string, p agent.Page) (retention.Report, error) {
	k.calls = append(k.calls, strings.TrimSpace("report "+tenant+" "+p.Token))
	return retention.Report{Tenants: []retention.TenantReport{{Tenant: tenant}}, Next: "more"}, k.err
}

func (k *keeper) Trigger(context.Context) (retention.Status, error) {
	k.calls = append(k.calls, "trigger")
	return retention.Status{Scheduled: true}, k.err
}

func (k *keeper) Pause(_ context.Context, paused bool, note string) (retention.Status, error) {
	verb := "resume "
	if paused {
		verb = "pause "
	}
	k.calls = append(k.calls, verb+note)
	return retention.Status{Scheduled: true, Paused: paused, Note: note}, k.err
}

type bench struct {
	*keeper
	t   *testing.T
	url string
}

func open(t *testing.T) *bench {
	t.Helper()
	k := &keeper{}
	d, err := door.New(k, k, k)
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", Runtime: gatewaytest.New(), Catalog: &gatewaytest.Catalog{}, Doors: []gateway.Door{d},
		Auth: gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "retention.*"), "ops": gatewaytest.Caller(agent.AnyTenant, "", "*"),
			"read": gatewaytest.Caller(agent.AnyTenant, "", "retention.read"), "user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
			"named": gatewaytest.Caller(agent.AnyTenant, "olga", "retention.*"),
		},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	return &bench{keeper: k, t: t, url: "http://" + g.HTTPAddr() + "/v1/retention"}
}

func (b *bench) do(key, method, path, body string) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(b.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(b.t, err)
	var out map[string]any
	require.NoError(b.t, json.Unmarshal(text, &out), string(text))
	return answer.StatusCode, out
}

func TestReport(t *testing.T) {
	b := open(t)
	code, out := b.do("acme", http.MethodGet, "?page_token=t&page_size=3", "")
	require.Equal(t, http.StatusOK, code, out)
	require.Equal(t, "more", out["next_page_token"])
	for _, key := range []string{"ops", "read"} {
		code, _ = b.do(key, http.MethodGet, "", "")
		require.Equal(t, http.StatusOK, code)
	}
	code, _ = b.do("ops", http.MethodGet, "?tenant=zoo", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []string{"report acme t", "report *", "report *", "report zoo"}, b.calls)

	b.calls = nil
	for path, key := range map[string]string{
		"?tenant=zoo": "acme", "": "user", "?x=1": "ops", "?page_size=101": "ops", "?page_size=-1": "ops", "?page_size=1&page_size=2": "ops",
		"?page_token=" + strings.Repeat("x", 200): "ops", "?page_token=%00": "ops",
	} {
		code, _ = b.do(key, http.MethodGet, path, "")
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, code, path)
	}
	require.Empty(t, b.calls)
	b.err = agent.Errorf(agent.CodeUnavailable, "", "Temporal is away")
	code, _ = b.do("acme", http.MethodGet, "", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

func TestSteering(t *testing.T) {
	b := open(t)
	code, out := b.do("ops", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusAccepted, code)
	require.Equal(t, true, out["scheduled"])
	code, out = b.do("ops", http.MethodPost, "/pause", `{"reason":"a backup"}`)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "a backup", out["note"])
	code, _ = b.do("named", http.MethodPost, "/resume", "{}")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []string{"trigger", "pause a backup", "resume resumed by olga"}, b.calls)
	require.Equal(t, []string{"allowed retention/run by ", "allowed retention/pause by ", "allowed retention/resume by olga"}, b.trail())
	code, _ = b.do("acme", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusForbidden, code)
	require.Equal(t, []string{"denied retention/run by "}, b.trail())

	b.calls = nil
	for _, call := range [][3]string{
		{"acme", "/run", ""},
		{"acme", "/pause", ""},
		{"acme", "/resume", ""},
		{"read", "/run", ""},
		{"user", "/pause", ""},
		{"ops", "/pause", `{"note":"x"}`},
		{"ops", "/pause?x=1", ""},
		{"ops", "/run", `{"tenant":"acme"}`},
		{"ops", "/pause", `{"reason":"` + strings.Repeat("x", 1001) + `"}`},
	} {
		code, out = b.do(call[0], http.MethodPost, call[1], call[2])
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, code, "%v %v", call, out)
	}
	require.Empty(t, b.calls)
	b.err = agent.Errorf(agent.CodeConflict, "", "there is no schedule")
	code, _ = b.do("ops", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusConflict, code)
	_, err := door.New(nil, &keeper{}, nil)
	require.Error(t, err)
	_, err = door.New(&keeper{}, nil, nil)
	require.Error(t, err)
}
