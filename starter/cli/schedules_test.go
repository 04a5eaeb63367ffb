package cli

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// withSchedules is a bench whose gateway has schedules.
func withSchedules(t *testing.T) (*bench, *gatewaytest.Schedules) {
	t.Helper()
	k := &gatewaytest.Schedules{}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Schedules, cfg.SchedulePlans = k, k }), k
}

func TestSchedules(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, `{"message":"anything?","every":"24h","metadata":{"team":"ops"},"paused":true}`, "nightly.json")
	b, k := withSchedules(t)
	b.steps("schedules",
		line(0, "create", "morning", "what happened?", "--cron", "0 7 * * 1-5", "--cron", "@daily", "--time-zone", "Europe/Berlin", "--agent", "analyst",
			"--model", "small", "--overlap", "buffer_one", "--jitter", "30s", "--catch-up", "5m", "--mail", "ops@example.com", "--mail", "b@example.com",
			"--webhook", "https://hooks.example.com/x", "--notify-on", "failure", "--description", "the news"),
		line(exitUsage, "create", "morning", "again", "--every", "1h"),
		line(0, "create", "nightly", "--file", "nightly.json", "--every", "12h", "--telegram", "ann", "--heartbeat"),
		line(0, "create", "nightly", "--file", "nightly.json", "--replace"),
		line(exitUsage, "create", "none", "x"),
		line(exitUsage, "create", "odd", "x", "--every", "soon"),
		line(0, "list"),
		line(0, "list", "--limit", "1"),
		line(0, "pause", "morning", "--note", "holidays"),
		line(0, "list", "--limit", "1"),
		line(0, "resume", "morning"),
		line(0, "trigger", "morning"),
		line(exitUsage, "trigger", "unknown"),
		line(0, "runs", "morning"),
		line(0, "show", "nightly"),
		line(0, "delete", "nightly"),
		line(exitUsage, "show", "nightly"),
	)
	golden(t, "schedules", b.screen.String())
	want := agent.Schedule{
		Name: "morning", Tenant: "default", Description: "the news", Agent: "analyst", Message: "what happened?", Cron: []string{"0 7 * * 1-5", "@daily"},
		TimeZone: "Europe/Berlin", Overlap: agent.OverlapBufferOne, Jitter: "30s", CatchUpWindow: "5m", Model: "small",
		Notify: []agent.Notification{
			{On: agent.NotifyFailure, Webhook: &agent.HookTarget{URL: "https://hooks.example.com/x"}},
			{On: agent.NotifyFailure, Email: &agent.MailTarget{To: []string{"ops@example.com", "b@example.com"}}},
		},
	}
	require.Equal(t, want, k.Puts[0])
	require.Regexp(t, `(?m)^trigger default morning \S+$`, strings.Join(k.Calls, "\n"), "a key of its own, so that a request that is sent twice runs it once")
}

// The output of show is valid input of create.
func TestSchedulesShowAndCreate(t *testing.T) {
	b, k := withSchedules(t)
	require.Equal(t, 0, b.run(noInput(), "schedules", "create", "a", "x", "--every", "1h", "--user", "ann", "--telegram", "ann"))
	b.show(0, "schedules", "show", "a")
	text := b.screen.out()
	require.Equal(t, 0, b.run(strings.NewReader(text), "schedules", "create", "b", "--file", "-", "--user", "bob"))
	require.Equal(t, "bob", k.Puts[1].UserID)
	require.Equal(t, k.Puts[0].Notify, k.Puts[1].Notify)
}

func TestSchedulesUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, `{"message":"x","evry":"1h"}`, "typo.json")
	writeFile(t, `every: 1h`, "no.json")
	b, k := withSchedules(t)
	b.refuses("schedules", map[string]string{
		`unknown field "evry"`: "create a --file typo.json",
		"is no schedule":       "create a --file no.json",
		"no such file":         "create a --file missing.json",
		"nobody is named":      "create a x --every 1h --notify-on failure",
		"notify[0].webhook":    "create a x --every 1h --webhook ftp://x",
		"accepts between 1":    "create",
		"--limit is -1":        "list --limit -1",
		"--limit is -2":        "runs a --limit -2",
		"no schedule":          "show a%b",
	})
	require.Empty(t, k.Puts)
}

// withLinks is a bench whose gateway has links of chats.
func withLinks(t *testing.T) (*bench, *gatewaytest.Links) {
	t.Helper()
	book := &gatewaytest.Links{}
	for _, c := range []string{"-1001", "7", "8"} {
		book.All = append(book.All, agent.Link{
			Chat: agent.Chat{Channel: "telegram", ChatID: c}, Tenant: "default", UserID: cmp.Or(map[string]string{"8": "bob"}[c], "ann"), Role: "trader",
			Scopes: []string{"turns.run"}, LinkedAt: gatewaytest.Epoch(),
		})
	}
	telegram := gateway.LinkChannel{Name: "telegram", URL: func(string) string { return "https://t.me/a_bot" }, Webhook: http.NotFoundHandler()}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Links, cfg.LinkChannels = book, []gateway.LinkChannel{telegram} }), book
}

func TestLinks(t *testing.T) {
	b, book := withLinks(t)
	b.steps("links",
		line(0, "list"),
		line(0, "list", "--user", "bob"),
		line(0, "list", "--limit", "2"),
		line(0, "delete", "7"),
		line(0, "delete", "--channel", "telegram", "--", "-1001"),
		line(exitUsage, "delete", "7"),
		line(0, "list"),
		line(exitUsage, "create", "ann", "--channel", "pigeon"),
		line(exitUsage, "create", "ann", "--scope", "fly"),
		line(exitUsage, "list", "--limit", "-1"),
	)
	golden(t, "links", b.screen.String())
	b.show(0, "links", "create", "ann", "--role", "trader", "--scope", "turns.run:analyst", "--scope", "turns.read")
	require.Regexp(t, `^send the bot: /link [A-Z2-7]{26}   \(until .*Z\)\nor open:      https://t.me/a_bot\n$`, b.screen.out())
	offered := book.Codes[0].Link
	require.Equal(t, []string{"ann", "trader", "turns.run:analyst turns.read"}, []string{offered.UserID, offered.Role, strings.Join(offered.Scopes, " ")})
	b.show(0, "links", "create", "ann", "-o", "json")
	var offer struct {
		Code, URL, Channel string
		Scopes             []string
	}
	require.NoError(t, json.Unmarshal([]byte(b.screen.out()), &offer))
	require.Equal(t, agent.HashLinkCode(offer.Code), book.Codes[1].Hash)
	require.Equal(t, "telegram", offer.Channel)
	require.Equal(t, agent.LinkScopes(), offer.Scopes)
}

func TestMessage(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-1", "--agent", "analyst", "first"))
	b.show(0, "message", "turn-1", "and", "back", "--on-busy", "interrupt", "--idempotency-key", "k")
	require.Regexp(t, `^turn turn-2 (runs now|is number \d in line)\n$`, b.screen.out())
	sent := b.rt.Submitted()[1].Request
	require.Equal(t, "and back", sent.Message)
	require.Equal(t, agent.SessionID("trip-1"), sent.SessionID)
	require.Equal(t, agent.OnBusyInterrupt, sent.OnBusy)
	require.Equal(t, "cli", sent.Channel)
	require.Equal(t, "k", sent.IdempotencyKey)
	posted := answer[map[string]any](b, "message", "turn-1", "x")
	require.Equal(t, "turn-3", posted["turn_id"])
	require.Equal(t, "trip-1", posted["session_id"])
	require.NotEmpty(t, b.rt.Submitted()[2].Request.IdempotencyKey, "a generated key")
	b.refuses("", map[string]string{
		"--on-busy is":  "message turn-1 x --on-busy push",
		"is no turn id": "message a/b x",
		"no turn":       "message unknown x",
		"at least 2":    "message turn-1",
	})
}
