package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func linkCallers() gatewaytest.Credentials {
	key := func(tenant, subject, role string, scopes ...string) agent.Principal {
		return agent.Principal{Method: agent.MethodKey, Tenant: tenant, Subject: subject, Role: role, Scopes: scopes, Credential: "key/" + subject}
	}
	return gatewaytest.Credentials{
		"all":     key("acme", "", "", "*"),
		"front":   key("acme", "", "guest", "links.write", "turns.run:analyst", "turns.read"),
		"ann":     key("acme", "ann", "clerk", "links.write", "turns.*"),
		"nothing": key("acme", "", "", "links.write"),
		"reader":  key("acme", "", "", "turns.read"),
		"evil":    key("evil", "", "", "*"),
		"ops":     key(agent.AnyTenant, "root", "", "*"),
	}
}

// linksGateway is a gateway with links.
type linksGateway struct {
	*testGateway

	links *gatewaytest.Links
}

func startWithLinks(t *testing.T, auth access.Authenticator) (linksGateway, *gatewaytest.Trail) {
	store, trail := &gatewaytest.Links{}, &gatewaytest.Trail{}
	telegram := gateway.LinkChannel{
		Name: "telegram", URL: func(code string) string { return "https://t.me/b?start=" + code },
		Webhook: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Telegram-Bot-Api-Secret-Token") != "known" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}),
	}
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth, c.Audit, c.Links, c.LinkChannels = auth, trail, store, []gateway.LinkChannel{telegram, {Name: "pigeon"}}
	})
	return linksGateway{d, store}, trail
}

func TestLink(t *testing.T) {
	d, trail := startWithLinks(t, linkCallers())
	a := d.sendAs("all", "POST", "/v1/links", `{"channel":"telegram","user_id":"ann","role":"clerk","scopes":["turns.*"]}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	code := a.json()["code"].(string)
	require.Regexp(t, `^[A-Z2-7]{26}$`, code, "130 bits, in characters that a link may hold")
	require.Equal(t, "https://t.me/b?start="+code, a.json()["url"])
	at, err := time.Parse(time.RFC3339, a.json()["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(agent.LinkCodeTTL), at, time.Minute)

	link, err := d.links.RedeemLink(agent.Chat{Channel: "telegram", ChatID: "7"}, code)
	require.NoError(t, err)
	require.Equal(t, []string{"turns.*"}, link.Scopes)
	a = d.sendAs("all", "GET", "/v1/links?channel=telegram&user_id=ann", "")
	found := a.json()["links"].([]any)
	require.Len(t, found, 1)
	require.Equal(t, "7", found[0].(map[string]any)["chat_id"])
	require.Equal(t, "acme", found[0].(map[string]any)["tenant"])

	require.Equal(t, http.StatusNotFound, d.sendAs("evil", "DELETE", "/v1/links/telegram/7", "").status)
	require.Empty(t, d.sendAs("evil", "GET", "/v1/links", "").json()["links"])
	require.Equal(t, http.StatusNoContent, d.sendAs("all", "DELETE", "/v1/links/telegram/7", "").status)
	require.Equal(t, http.StatusNotFound, d.sendAs("all", "DELETE", "/v1/links/telegram/7", "").status)
	require.Empty(t, d.sendAs("all", "GET", "/v1/links", "").json()["links"])
	require.Len(t, trail.Records(), 2)
	require.Equal(t, "link/telegram/7", trail.Records()[1].Resource)
}

func TestLinksGrantNoMoreThanTheCredential(t *testing.T) {
	d, _ := startWithLinks(t, linkCallers())
	for _, c := range []struct {
		key, body string
		status    int
		want      string // fault, or scopes
	}{
		{"front", `{"channel":"telegram","user_id":"u"}`, 201, "turns.read"},
		{"front", `{"channel":"telegram","user_id":"u","scopes":["turns.run:analyst"]}`, 201, "turns.run:analyst"},
		{"front", `{"channel":"telegram","user_id":"u","scopes":["turns.read","turns.run"]}`, 403, "denied scopes[1]"},
		{"front", `{"channel":"telegram","user_id":"u","scopes":["turns.run:*"]}`, 403, "denied scopes[0]"},
		{"front", `{"channel":"telegram","user_id":"u","scopes":["*"]}`, 403, "denied scopes[0]"},
		{"front", `{"channel":"telegram","user_id":"u","scopes":[]}`, 403, "denied scopes"},
		{"front", `{"channel":"telegram","user_id":"u","role":"guest"}`, 201, "turns.read"},
		{"front", `{"channel":"telegram","user_id":"u","role":"admin"}`, 403, "denied role"},
		{"nothing", `{"channel":"telegram","user_id":"u"}`, 403, "denied scopes"},
		{"reader", `{"channel":"telegram","user_id":"u"}`, 403, "denied "},
		{"ann", `{"channel":"telegram"}`, 201, "turns.run turns.read turns.cancel"},
		{"ann", `{"channel":"telegram","user_id":"bob"}`, 403, "denied user_id"},
		{"ann", `{"channel":"telegram","role":"admin"}`, 403, "denied role"},
		{"all", `{"channel":"telegram","user_id":"u","role":"admin"}`, 201, strings.Join(agent.LinkScopes(), " ")},
		{"ops", `{"channel":"telegram","user_id":"u","role":"admin"}`, 201, strings.Join(agent.LinkScopes(), " ")},
		{"all", `{"channel":"telegram"}`, 400, "invalid user_id"},
		{"all", `{"channel":"fax","user_id":"u"}`, 400, "invalid channel"},
		{"all", `{"channel":"telegram","user_id":"u","scopes":["fly"]}`, 400, "invalid scopes[0]"},
		{"all", `{"channel":"telegram","user_id":"u","scopes":["turns.*","keys.write:agent:x"]}`, 400, "invalid scopes[1]"},
		{"all", `{"channel":"telegram","user_id":"a\nb"}`, 400, "invalid user_id"},
		{"all", `{"channel":"telegram","user_id":"u","tenant":"evil"}`, 400, "invalid tenant"},
		{"all", `{"channel":"telegram","user_id":"u","chat_id":"7"}`, 400, "invalid chat_id"},
		{"", `{"channel":"telegram","user_id":"u"}`, 401, "unauthenticated "},
	} {
		a := d.sendAs(c.key, "POST", "/v1/links", c.body)
		require.Equal(t, c.status, a.status, "%s %s: %s", c.key, c.body, a.body)
		if a.status != http.StatusCreated {
			require.Equal(t, c.want, a.fault(t), "%s %s", c.key, c.body)
			continue
		}
		var scopes []string
		for _, s := range a.json()["scopes"].([]any) {
			scopes = append(scopes, s.(string))
		}
		require.Equal(t, c.want, strings.Join(scopes, " "), "%s %s", c.key, c.body)
		if c.key == "ann" {
			require.Equal(t, "ann", a.json()["user_id"])
			require.Equal(t, "clerk", a.json()["role"])
		}
	}
}

func TestAUsersOwnCredentialSeesOwnLinks(t *testing.T) {
	d, _ := startWithLinks(t, linkCallers())
	d.links.Link("1", "acme", "ann", "turns.*")
	d.links.Link("2", "acme", "bob", "turns.*")
	d.links.Link("3", "evil", "ann", "turns.*")
	a := d.sendAs("ann", "GET", "/v1/links", "")
	require.Len(t, a.json()["links"], 1)
	require.Equal(t, "denied user_id", d.sendAs("ann", "GET", "/v1/links?user_id=bob", "").fault(t))
	for chat, status := range map[string]int{"2": 404, "3": 404, "9": 404, "1": 204, "%00": 404} {
		require.Equal(t, status, d.sendAs("ann", "DELETE", "/v1/links/telegram/"+chat, "").status, chat)
	}
	require.Len(t, d.sendAs("all", "GET", "/v1/links", "").json()["links"], 1)
}

func TestLinkPages(t *testing.T) {
	d, _ := startWithLinks(t, nil)
	for _, chat := range []string{"1", "2", "3"} {
		d.links.Link(chat, "default", "u")
	}
	a := d.sendAs("", "GET", "/v1/links?page_size=2", "")
	require.Len(t, a.json()["links"], 2)
	a = d.sendAs("", "GET", "/v1/links?page_size=2&page_token="+a.json()["next_page_token"].(string), "")
	require.Len(t, a.json()["links"], 1)
	require.Empty(t, a.json()["next_page_token"])
	for _, query := range []string{"page_size=501", "page_token=" + strings.Repeat("x", 5000)} {
		require.Equal(t, http.StatusBadRequest, d.sendAs("", "GET", "/v1/links?"+query, "").status, query)
	}
	require.Equal(t, http.StatusCreated, d.sendAs("", "POST", "/v1/links", `{"channel":"pigeon","user_id":"u","role":"any"}`).status, "without authentication everything is allowed")
}

func TestWebhookNeedsNoCredential(t *testing.T) {
	d, _ := startWithLinks(t, linkCallers())
	require.Equal(t, http.StatusUnauthorized, d.sendAs("", "POST", "/channels/telegram", "{}").status)
	require.Equal(t, http.StatusAccepted, d.sendAs("", "POST", "/channels/telegram", "{}", "X-Telegram-Bot-Api-Secret-Token", "known").status)
	require.Equal(t, http.StatusNotFound, d.sendAs("all", "POST", "/channels/pigeon", "{}").status)
}
