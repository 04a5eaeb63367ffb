package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// timetable keeps schedules in memory.
type timetable struct {
	kept  []agent.Schedule
	calls []string
}

var _ gateway.Schedules = (*timetable)(nil)

func (k *timetable) find(name string) (*agent.Schedule, error) {
	if at := slices.IndexFunc(k.kept, func(s agent.Schedule) bool { return s.Name == name }); at >= 0 {
		return &k.kept[at], nil
	}
	return nil, agent.Errorf(agent.CodeNotFound, "", "there is no schedule %q", name)
}

func (k *timetable) Put(_ context.Context, s agent.Schedule, _ agent.Principal, isNew bool) (agent.Schedule, error) {
	s.Revision, s.CreatedAt = 1, new(gatewaytest.Epoch())
	if !s.Paused {
		s.Next = []time.Time{gatewaytest.Epoch().Add(time.Hour)}
	}
	known, err := k.find(s.Name)
	switch {
	case err != nil:
		k.kept = append(k.kept, s)
	case isNew:
		return s, agent.Errorf(agent.CodeConflict, "name", "there is a schedule %q already", s.Name)
	default:
		s.Revision = known.Revision + 1
		*known = s
	}
	return s, nil
}

func (k *timetable) Get(_ context.Context, _, name string) (agent.Schedule, error) {
	s, err := k.find(name)
	if err != nil {
		return agent.Schedule{}, err
	}
	return *s, nil
}

// List has a schedule a page.
func (k *timetable) List(_ context.Context, _ string, p agent.Page) (agent.SchedulePage, error) {
	for i := range k.kept {
		if k.kept[i].Name > p.Token {
			page := agent.SchedulePage{Schedules: k.kept[i : i+1]}
			if i+1 < len(k.kept) {
				page.Next = k.kept[i].Name
			}
			return page, nil
		}
	}
	return agent.SchedulePage{}, nil
}

func (k *timetable) Runs(_ context.Context, _, name string, _ agent.Page) (agent.ScheduleRunPage, error) {
	if _, err := k.find(name); err != nil {
		return agent.ScheduleRunPage{}, err
	}
	sent := agent.ScheduleNotice{Status: agent.NoticeSent}
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{
		{RunID: "r2", TurnID: "turn-2", Status: "failed", Error: &agent.Failure{Type: "denied", Message: "no\x1b[2J"}, StartedAt: gatewaytest.Epoch(), Notices: []agent.ScheduleNotice{sent, {}}},
		{RunID: "r1", Status: agent.ScheduleRunning, StartedAt: gatewaytest.Epoch(), Output: "all is well"},
	}}, nil
}

func (k *timetable) Delete(_ context.Context, _, name string) error {
	if _, err := k.find(name); err != nil {
		return err
	}
	k.kept = slices.DeleteFunc(k.kept, func(s agent.Schedule) bool { return s.Name == name })
	return nil
}

func (k *timetable) Pause(_ context.Context, _, name string, paused bool, note string) (agent.Schedule, error) {
	s, err := k.find(name)
	if err != nil {
		return agent.Schedule{}, err
	}
	s.Paused, s.Note = paused, note
	return *s, nil
}

func (k *timetable) Trigger(_ context.Context, _, name, key string) (agent.ScheduleTriggered, error) {
	k.calls = append(k.calls, "trigger "+name+" "+key)
	_, err := k.find(name)
	return agent.ScheduleTriggered{WorkflowID: "w1", RunID: "r3"}, err
}

// Resolve implements gateway.SchedulePlans.
func (k *timetable) Resolve(context.Context, string, string) (agent.Plan, string, error) {
	return agent.Plan{Models: []agent.PlanModel{{Profile: "small"}}}, "hash", nil
}

// clockwork is a gateway with schedules.
func clockwork(t *testing.T) (*bench, *timetable) {
	t.Helper()
	k := &timetable{}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Schedules, cfg.SchedulePlans = k, k }), k
}

func TestSchedules(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("nightly.json", []byte(`{"message":"anything?","every":"24h","metadata":{"team":"ops"},"paused":true}`), 0o600))
	b, k := clockwork(t)
	line := func(want int, args ...string) commandLine {
		return commandLine{args: append([]string{"schedules"}, args...), want: want}
	}
	b.steps(
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
	got := k.kept[0]
	got.Revision, got.CreatedAt, got.Next, got.Note = 0, nil, nil, ""
	require.Equal(t, want, got)
	require.Len(t, strings.Fields(k.calls[0]), 3, "a key of its own, so that a request that is sent twice runs it once")
}

// What show prints can be given back.
func TestSchedulesShowAndCreate(t *testing.T) {
	b, k := clockwork(t)
	require.Equal(t, 0, b.run(noInput(), "schedules", "create", "a", "x", "--every", "1h", "--user", "ann", "--telegram", "ann"))
	b.show(0, "schedules", "show", "a")
	text := b.screen.out()
	require.Equal(t, 0, b.run(strings.NewReader(text), "schedules", "create", "b", "--file", "-", "--user", "bob"))
	require.Equal(t, "bob", k.kept[1].UserID)
	require.Equal(t, k.kept[0].Notify, k.kept[1].Notify)
}

func TestSchedulesUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("typo.json", []byte(`{"message":"x","evry":"1h"}`), 0o600))
	require.NoError(t, os.WriteFile("no.json", []byte(`every: 1h`), 0o600))
	b, k := clockwork(t)
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
	require.Empty(t, k.kept)
}

// chatbook keeps links in memory.
type chatbook struct {
	links []agent.Link
	codes []agent.LinkCode
}

func (s *chatbook) CreateLinkCode(_ context.Context, c agent.LinkCode) error {
	s.codes = append(s.codes, c)
	return nil
}

func (s *chatbook) ChatLink(_ context.Context, c agent.Chat) (agent.Link, error) {
	for _, l := range s.links {
		if l.Chat == c {
			return l, nil
		}
	}
	return agent.Link{}, agent.Errorf(agent.CodeNotFound, "", "chat %q is linked to no user", c.ChatID)
}

func (s *chatbook) Links(_ context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	var page agent.LinkPage
	for i, l := range s.links {
		switch {
		case l.ChatID <= q.PageToken && q.PageToken != "", q.UserID != "" && l.UserID != q.UserID, q.Channel != "" && l.Channel != q.Channel:
			continue
		case len(page.Links) == q.PageSize:
			page.Next = s.links[i-1].ChatID
			return page, nil
		}
		page.Links = append(page.Links, l)
	}
	return page, nil
}

func (s *chatbook) Unlink(ctx context.Context, _ string, c agent.Chat) error {
	if _, err := s.ChatLink(ctx, c); err != nil {
		return err
	}
	s.links = slices.DeleteFunc(s.links, func(l agent.Link) bool { return l.Chat == c })
	return nil
}

// linked is a gateway with links of chats.
func linked(t *testing.T) (*bench, *chatbook) {
	t.Helper()
	book := &chatbook{}
	for _, c := range []string{"-1001", "7", "8"} {
		book.links = append(book.links, agent.Link{
			Chat: agent.Chat{Channel: "telegram", ChatID: c}, Tenant: "default", UserID: cmp.Or(map[string]string{"8": "bob"}[c], "ann"), Role: "trader",
			Scopes: []string{"turns.run"}, LinkedAt: gatewaytest.Epoch(),
		})
	}
	telegram := gateway.LinkChannel{Name: "telegram", URL: func(string) string { return "https://t.me/a_bot" }, Webhook: http.NotFoundHandler()}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Links, cfg.LinkChannels = book, []gateway.LinkChannel{telegram} }), book
}

func TestLinks(t *testing.T) {
	b, book := linked(t)
	line := func(want int, args ...string) commandLine {
		return commandLine{args: append([]string{"links"}, args...), want: want}
	}
	b.steps(
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
	offered := book.codes[0].Link
	require.Equal(t, []string{"ann", "trader", "turns.run:analyst turns.read"}, []string{offered.UserID, offered.Role, strings.Join(offered.Scopes, " ")})
	b.show(0, "links", "create", "ann", "-o", "json")
	var offer struct {
		Code, URL, Channel string
		Scopes             []string
	}
	require.NoError(t, json.Unmarshal([]byte(b.screen.out()), &offer))
	require.Equal(t, agent.HashLinkCode(offer.Code), book.codes[1].Hash)
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
	require.NotEmpty(t, b.rt.Submitted()[2].Request.IdempotencyKey, "a key of its own")
	b.refuses("", map[string]string{
		"--on-busy is":  "message turn-1 x --on-busy push",
		"is no turn id": "message a/b x",
		"no turn":       "message unknown x",
		"at least 2":    "message turn-1",
	})
}
