package links_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/links"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// keys knows callers by their keys.
type keys map[string]agent.Principal

func (k keys) Authenticate(_ context.Context, c access.Credentials) (agent.Principal, error) {
	if p, ok := k[c.Key]; ok {
		return p, nil
	}
	return agent.Principal{}, agent.Errorf(agent.CodeUnauthenticated, "", "who are you?")
}

func callers() keys {
	key := func(tenant, subject, role string, scopes ...string) agent.Principal {
		return agent.Principal{Method: agent.MethodKey, Tenant: tenant, Subject: subject, Role: role, Scopes: scopes, Credential: "key/" + subject}
	}
	return keys{
		"all":     key("acme", "", "", "*"),
		"front":   key("acme", "", "guest", "links.write", "turns.run:analyst", "turns.read"),
		"ann":     key("acme", "ann", "clerk", "links.write", "turns.*"),
		"nothing": key("acme", "", "", "links.write"),
		"reader":  key("acme", "", "", "turns.read"),
		"evil":    key("evil", "", "", "*"),
		"ops":     key(agent.AnyTenant, "root", "", "*"),
	}
}

type door struct {
	t     *testing.T
	store *telegramtest.Store
	url   string

	mu      sync.Mutex
	records []agent.AuditRecord
	pushed  int
}

func (d *door) Record(r agent.AuditRecord) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = append(d.records, r)
}

func open(t *testing.T, auth access.Authenticator) *door {
	t.Helper()
	d := &door{t: t, store: telegramtest.NewStore(t)}
	l, err := links.New(d.store, d, links.Channel{
		Name: "telegram", URL: func(code string) string { return "https://t.me/b?start=" + code },
		Webhook: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Telegram-Bot-Api-Secret-Token") != "known" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			d.pushed++
		}),
	}, links.Channel{Name: "pigeon"})
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", Runtime: gatewaytest.New(), Catalog: &gatewaytest.Catalog{}, Doors: []gateway.Door{l}, Auth: auth,
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	d.url = "http://" + g.HTTPAddr()
	return d
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// fault is the field and the type of an error.
func (a answer) fault() string {
	f, _ := a.body["error"].(map[string]any)
	field, _ := f["field"].(string)
	kind, _ := f["type"].(string)
	return kind + " " + field
}

func (d *door) send(key, method, path, body string, header ...string) answer {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	require.NoError(d.t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header}
	if len(data) > 0 {
		require.NoError(d.t, json.Unmarshal(data, &a.body), string(data))
	}
	return a
}

func TestALink(t *testing.T) {
	d := open(t, callers())
	a := d.send("all", "POST", "/v1/links", `{"channel":"telegram","user_id":"ann","role":"clerk","scopes":["turns.*"]}`)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	code := a.body["code"].(string)
	require.Regexp(t, `^[A-Z2-7]{26}$`, code, "130 bits, in characters that a link may hold")
	require.Equal(t, "https://t.me/b?start="+code, a.body["url"])
	at, err := time.Parse(time.RFC3339, a.body["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(agent.LinkCodeTTL), at, time.Minute)

	link, err := d.store.RedeemLink(t.Context(), agent.Chat{Channel: "telegram", ChatID: "7"}, code)
	require.NoError(t, err)
	require.Equal(t, []string{"turns.*"}, link.Scopes)
	a = d.send("all", "GET", "/v1/links?channel=telegram&user_id=ann", "")
	found := a.body["links"].([]any)
	require.Len(t, found, 1)
	require.Equal(t, "7", found[0].(map[string]any)["chat_id"])
	require.Equal(t, "acme", found[0].(map[string]any)["tenant"])

	require.Equal(t, http.StatusNotFound, d.send("evil", "DELETE", "/v1/links/telegram/7", "").status)
	require.Empty(t, d.send("evil", "GET", "/v1/links", "").body["links"])
	require.Equal(t, http.StatusNoContent, d.send("all", "DELETE", "/v1/links/telegram/7", "").status)
	require.Equal(t, http.StatusNotFound, d.send("all", "DELETE", "/v1/links/telegram/7", "").status)
	require.Empty(t, d.send("all", "GET", "/v1/links", "").body["links"])
	require.Len(t, d.records, 2)
	require.Equal(t, "link/telegram/7", d.records[1].Resource)
}

func TestNobodyHandsOutWhatHeHasNot(t *testing.T) {
	d := open(t, callers())
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
		a := d.send(c.key, "POST", "/v1/links", c.body)
		require.Equal(t, c.status, a.status, "%s %s: %v", c.key, c.body, a.body)
		if a.status != http.StatusCreated {
			require.Equal(t, c.want, a.fault(), "%s %s", c.key, c.body)
			continue
		}
		var scopes []string
		for _, s := range a.body["scopes"].([]any) {
			scopes = append(scopes, s.(string))
		}
		require.Equal(t, c.want, strings.Join(scopes, " "), "%s %s", c.key, c.body)
		if c.key == "ann" {
			require.Equal(t, "ann", a.body["user_id"])
			require.Equal(t, "clerk", a.body["role"])
		}
	}
}

func TestACredentialOfSomebodysOwnSeesHisLinksAlone(t *testing.T) {
	d := open(t, callers())
	d.store.Link("1", "acme", "ann", "turns.*")
	d.store.Link("2", "acme", "bob", "turns.*")
	d.store.Link("3", "evil", "ann", "turns.*")
	a := d.send("ann", "GET", "/v1/links", "")
	require.Len(t, a.body["links"], 1)
	require.Equal(t, "denied user_id", d.send("ann", "GET", "/v1/links?user_id=bob", "").fault())
	for chat, status := range map[string]int{"2": 404, "3": 404, "9": 404, "1": 204, "%00": 404} {
		require.Equal(t, status, d.send("ann", "DELETE", "/v1/links/telegram/"+chat, "").status, chat)
	}
	require.Len(t, d.send("all", "GET", "/v1/links", "").body["links"], 1)
}

func TestPagesAndParameters(t *testing.T) {
	d := open(t, nil)
	for _, chat := range []string{"1", "2", "3"} {
		d.store.Link(chat, "default", "u")
	}
	a := d.send("", "GET", "/v1/links?page_size=2", "")
	require.Len(t, a.body["links"], 2)
	a = d.send("", "GET", "/v1/links?page_size=2&page_token="+a.body["next_page_token"].(string), "")
	require.Len(t, a.body["links"], 1)
	require.Empty(t, a.body["next_page_token"])
	for _, query := range []string{"page_size=x", "page_size=-1", "page_size=501", "user=u", "user_id=a&user_id=b", "page_token=" + strings.Repeat("x", 5000)} {
		require.Equal(t, http.StatusBadRequest, d.send("", "GET", "/v1/links?"+query, "").status, query)
	}
	require.Equal(t, http.StatusCreated, d.send("", "POST", "/v1/links", `{"channel":"pigeon","user_id":"u","role":"any"}`).status, "nobody is asked for anything")
}

func TestTheWebhookNeedsNoCredential(t *testing.T) {
	d := open(t, callers())
	require.Equal(t, http.StatusUnauthorized, d.send("", "POST", "/channels/telegram", "{}").status)
	require.Equal(t, http.StatusOK, d.send("", "POST", "/channels/telegram", "{}", "X-Telegram-Bot-Api-Secret-Token", "known").status)
	require.Equal(t, 1, d.pushed)
	require.Equal(t, http.StatusNotFound, d.send("all", "POST", "/channels/pigeon", "{}").status)
}

func TestNew(t *testing.T) {
	_, err := links.New(nil, nil)
	require.Error(t, err)
	_, err = links.New(&telegramtest.Store{}, nil, links.Channel{Name: "a"}, links.Channel{Name: "a"})
	require.Error(t, err)
	_, err = links.New(&telegramtest.Store{}, nil, links.Channel{Name: "a b"})
	require.Error(t, err)
}
