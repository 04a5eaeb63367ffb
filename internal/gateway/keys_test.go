package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestKeysDoor(t *testing.T) {
	d, _, trail := startWithKeys(t, nil)
	admin := d.createKey(`{"name":"admin","tenant":"acme","scopes":["keys.*","turns.*","audit.read"]}`, operatorKey())
	mine := d.createKey(`{"name":"mine","scopes":["turns.run:analyst"],"subject":"ann","role":"clerk","flags":{"beta":true},"expires_in":"720h"}`, admin.Key)
	require.Equal(t, "acme", mine.Tenant)
	require.Equal(t, "key/"+admin.ID, mine.CreatedBy)
	require.NotNil(t, mine.ExpiresAt)
	a := d.send("GET", "/v1/keys", "", bearer(admin.Key)...)
	require.Contains(t, string(a.body), mine.ID)
	require.NotContains(t, string(a.body), mine.Key[21:50])
	require.NotContains(t, string(a.body), `"key":`)
	page := decode[map[string]any](t, d.send("GET", "/v1/keys?page_size=1", "", bearer(admin.Key)...))
	require.Len(t, page["keys"], 1)
	next, _ := page["next_page_token"].(string)
	require.Contains(t, string(d.send("GET", "/v1/keys?page_size=1&page_token="+next, "", bearer(admin.Key)...).body), `"next_page_token":"`)

	for body, field := range map[string]string{
		`{"name":"x","scopes":["*"]}`: "scopes", `{"name":"x"}`: "scopes", `{"name":"x","tenant":"other","scopes":["turns.run"]}`: "tenant",
		`{"name":"x","tenant":"*","scopes":["turns.run"]}`: "tenant",
	} {
		a := d.send("POST", "/v1/keys", body, bearer(admin.Key)...)
		require.Equal(t, 403, a.status, "%s", a.body)
		require.Equal(t, field, a.failure(t).Field)
	}
	for body, field := range map[string]string{
		`{"name":""}`: "name", `{"name":"x","expires_in":"soon"}`: "expires_in", `{"name":"x","expires_in":"-1h"}`: "expires_in",
		`{"name":"x","expires_in":"0s"}`: "expires_in", `{"name":"x","scopes":["results.read:x"]}`: "scopes",
		`{"name":"x","scopes":["turn.s"]}`: "scopes", `{"name":"x","key":"y"}`: "key",
	} {
		a := d.send("POST", "/v1/keys", body, bearer(admin.Key)...)
		require.Equal(t, 400, a.status, "%s", a.body)
		require.Equal(t, field, a.failure(t).Field)
	}
	require.Equal(t, 403, d.send("GET", "/v1/keys", "", bearer(mine.Key)...).status)

	rotated := decode[agent.NewKey](t, d.send("POST", "/v1/keys/"+mine.ID+"/rotate", "", bearer(admin.Key)...))
	require.Equal(t, []string{"turns.run:analyst"}, rotated.Scopes)
	require.Equal(t, 400, d.send("POST", "/v1/keys/"+rotated.ID+"/rotate", `{"overlap":"x"}`, bearer(admin.Key)...).status)
	require.Equal(t, 409, d.send("POST", "/v1/keys/"+mine.ID+"/rotate", "", bearer(admin.Key)...).status)
	require.Equal(t, 200, d.send("DELETE", "/v1/keys/"+rotated.ID, "", bearer(admin.Key)...).status)
	require.Equal(t, 401, d.send("GET", "/v1/whoami", "", bearer(rotated.Key)...).status, "at once where it was revoked")
	require.Equal(t, 404, d.send("DELETE", "/v1/keys/"+rotated.ID, "", append(bearer(operatorKey()), "Turnstone-Tenant", "other")...).status)

	var resources []string
	for _, r := range trail.Records() {
		if r.Action == agent.ActionKeysWrite && r.Outcome == agent.AuditAllowed {
			resources = append(resources, r.Resource)
		}
		require.NotContains(t, string(r.Detail), "tsk_")
	}
	require.Equal(t, []string{"key/" + admin.ID, "key/" + mine.ID, "key/" + mine.ID, "key/" + rotated.ID}, resources)
	a = d.send("GET", "/v1/audit?outcome=denied&limit=2", "", bearer(admin.Key)...)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Len(t, decode[agent.AuditPage](t, a).Records, 2)
	for query, field := range map[string]string{
		"outcome=maybe": "outcome", "limit=501": "limit", "since=yesterday": "since", "before=-1": "before", "by=x": "by",
	} {
		a := d.send("GET", "/v1/audit?"+query, "", bearer(admin.Key)...)
		require.Equal(t, 400, a.status)
		require.Equal(t, field, a.failure(t).Field)
	}
	plain := startGateway(t, nil)
	require.Equal(t, 404, plain.send("GET", "/v1/keys", "").status)
	require.Equal(t, 404, plain.send("GET", "/v1/audit", "").status)
	require.Equal(t, "none", decode[agent.Principal](t, plain.send("GET", "/v1/whoami", "")).Method)
}
