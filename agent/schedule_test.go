package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func schedule() *Schedule {
	return &Schedule{Name: "news", Message: "what is new?", Cron: []string{"0 9 * * *"}}
}

func TestScheduleValidate(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	web := func(url string) []Notification { return []Notification{{Webhook: &HookTarget{URL: url}}} }
	for field, change := range map[string]func(s *Schedule){
		"name":                    func(s *Schedule) { s.Name = "a b" },
		"name ":                   func(s *Schedule) { s.Name = strings.Repeat("x", 65) },
		"kind":                    func(s *Schedule) { s.Kind = "daily" },
		"agent":                   func(s *Schedule) { s.Agent = "a/b" },
		"message":                 func(s *Schedule) { s.Message = " \n" },
		"message ":                func(s *Schedule) { s.Message = long },
		"quiet":                   func(s *Schedule) { s.Quiet = "OK" },
		"model":                   func(s *Schedule) { s.Model = "a b" },
		"user_id":                 func(s *Schedule) { s.UserID = "a\nb" },
		"description":             func(s *Schedule) { s.Description = long },
		"note":                    func(s *Schedule) { s.Note = long },
		"cron":                    func(s *Schedule) { s.Cron = nil },
		"cron ":                   func(s *Schedule) { s.Cron = make([]string, 17) },
		"cron[1]":                 func(s *Schedule) { s.Cron = append(s.Cron, "* * * *") },
		"time_zone":               func(s *Schedule) { s.TimeZone = "Mars/Olympus" },
		"time_zone ":              func(s *Schedule) { s.TimeZone = "Local" },
		"every":                   func(s *Schedule) { s.Every = "soon" },
		"every ":                  func(s *Schedule) { s.Every = "500ms" },
		"every  ":                 func(s *Schedule) { s.Every = "1500ms" },
		"jitter":                  func(s *Schedule) { s.Jitter = "48h" },
		"jitter ":                 func(s *Schedule) { s.Jitter = "-1s" },
		"catch_up_window":         func(s *Schedule) { s.CatchUpWindow = "1s" },
		"overlap":                 func(s *Schedule) { s.Overlap = "queue" },
		"end_at":                  func(s *Schedule) { s.StartAt, s.EndAt = new(time.Unix(9, 0)), new(time.Unix(9, 0)) },
		"limits.tool_calls":       func(s *Schedule) { s.Limits = &Limits{ToolCalls: -1} },
		"metadata":                func(s *Schedule) { s.Metadata = map[string]any{"x": long} },
		"output_schema":           func(s *Schedule) { s.OutputSchema = json.RawMessage(`[]`) },
		"notify":                  func(s *Schedule) { s.Notify = make([]Notification, 9) },
		"notify[0]":               func(s *Schedule) { s.Notify = make([]Notification, 1) },
		"notify[0] ":              func(s *Schedule) { s.Notify = []Notification{{Webhook: &HookTarget{}, Telegram: &PersonTarget{}}} },
		"notify[0].on":            func(s *Schedule) { s.Notify = []Notification{{On: "never", Telegram: &PersonTarget{User: "a"}}} },
		"notify[0].webhook.url":   func(s *Schedule) { s.Notify = web("ftp://x/y") },
		"notify[0].webhook.url ":  func(s *Schedule) { s.Notify = web("https:///y") },
		"notify[0].webhook.url  ": func(s *Schedule) { s.Notify = web("https://user:word@x/y") },
		"notify[0].webhook.url.":  func(s *Schedule) { s.Notify = web("https://x/" + long) },
		"notify[0].webhook.url\n": func(s *Schedule) { s.Notify = web("https://x/a b") },
		"notify[0].webhook.auth":  func(s *Schedule) { s.Notify = []Notification{{Webhook: &HookTarget{URL: "https://x", Auth: "a b"}}} },
		"notify[0].email.to":      func(s *Schedule) { s.Notify = []Notification{{Email: &MailTarget{}}} },
		"notify[0].email.to[1]":   func(s *Schedule) { s.Notify = []Notification{{Email: &MailTarget{To: []string{"a@b", "c"}}}} },
		"notify[0].telegram.user": func(s *Schedule) { s.Notify = []Notification{{Telegram: &PersonTarget{}}} },
	} {
		s := schedule()
		change(s)
		f := FailureOf(s.Validate())
		require.NotNil(t, f, "%q", field)
		require.Equal(t, strings.TrimRight(field, " .\n"), f.Field, f.Message)
		require.Contains(t, []Code{CodeInvalid, CodeOverflow}, Code(f.Type))
	}
	whole := schedule()
	whole.Kind, whole.Quiet, whole.Every, whole.Jitter, whole.CatchUpWindow = ScheduleHeartbeat, "OK", "90s", "0s", "10s"
	whole.TimeZone, whole.Overlap, whole.OutputSchema = "America/New_York", OverlapAllowAll, json.RawMessage(`{"type":"object"}`)
	whole.Notify = append(web("https://hooks.example.com:8443/a?b=c@d"), Notification{On: NotifyChange, Email: &MailTarget{To: []string{"a@b.c"}}})
	require.NoError(t, whole.Validate())
	require.NoError(t, (&Schedule{Name: "x", Message: "y", Every: "1m"}).Validate())
}

func TestCron(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"0 9 * * *", "*/5 0-6,18/2 1,15 jan-mar mon-fri", "0 9 * * 7", "0 9 * * sunday", "0 9 29 2 *", "0 9 * * * 2030", "15 0 9 * * * 2030-2040/5",
		"@daily", " @hourly # at work ", "0 9 * * 1 # Monday", "59 23 31 DECEMBER *", "0 9 * * * # TZ=UTC is no zone here", "+1 * * * *", "*/5000 * * * *",
		"0 9 * * * 2026", "0 9 20 11 * 2026", "0 9 29 2 * 2000-2028/4",
	} {
		require.NoError(t, checkCron(text, now), text)
	}
	for text, want := range map[string]string{
		"":                                       "has 0 fields",
		"* * * *":                                "has 4 fields",
		"* * * * * * * *":                        "has 8 fields",
		"60 * * * *":                             `minute: "60" is not within 0 to 59`,
		"* 24 * * *":                             `hour: "24"`,
		"* * 0 * *":                              `day of month: "0" is not within 1 to 31`,
		"* * * 13 *":                             `month: "13"`,
		"* * * xxx *":                            `month: "xxx"`,
		"* * * ja *":                             `month: "ja"`,
		"* * * * 8":                              `day of week: "8"`,
		"* * * * * 1999":                         `year: "1999"`,
		"60 * * * * * *":                         `second: "60"`,
		"*/0 * * * *":                            "is not a number from 1",
		"5/ * * * *":                             "is not a number from 1",
		"1/2/3 * * * *":                          "is not a number from 1",
		"*/4294967297 * * * *":                   "is not a number from 1",
		"9-5 * * * *":                            "ends before it begins",
		"1-2-3 * * * *":                          `"2-3"`,
		"1, * * * *":                             `minute: ""`,
		"-1 * * * *":                             `minute: ""`,
		"0 9 30 2 *":                             "such a day never comes",
		"0 9 31 4,6 *":                           "such a day never comes",
		"0 9 29 2 * 2025":                        "such a day never comes",
		"0 9 * * * 2025":                         "such a day never comes",
		"0 9 19 11 * 2026":                       "such a day never comes",
		"? 9 * * *":                              `"?"`,
		"0 9 1, 15 * *":                          `day of month: ""`,
		"@every 5m":                              "give every in a schedule",
		"CRON_TZ=UTC 0 9 * * *":                  "belongs to the field time_zone",
		"@often":                                 "has 1 fields",
		"TZ=UTC 0 9 * * *":                       "belongs to the field time_zone",
		"0 9 * * *\n":                            "control character",
		strings.Repeat("x", 501):                 "is 501 bytes",
		"0 9 * * * #" + strings.Repeat("x", 201): "comment",
	} {
		require.ErrorContains(t, checkCron(text, now), want, "%q", text)
	}
}

// CheckCron accepts no empty expression and never panics.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"0 9 * * *", "*/5 0-6 1 jan mon", "@daily", "1/2/3 * * * *", "0 0 9 * * * 2030", "TZ=x 1 1 1 1 1", "#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckCron(text) == nil {
			times, _, _ := strings.Cut(text, "#")
			require.NotEmpty(t, strings.TrimSpace(times))
		}
	})
}

func TestNotificationTarget(t *testing.T) {
	for want, n := range map[string]Notification{
		"webhook hooks.example.com:8443": {Webhook: &HookTarget{URL: "https://hooks.example.com:8443/a/b?token=hidden"}},
		"webhook hooks.example.com":      {Webhook: &HookTarget{URL: "https://hooks.example.com?token=hidden"}},
		"email a@b.c, d@e.f":             {Email: &MailTarget{To: []string{"a@b.c", "d@e.f"}}},
		"telegram ann":                   {Telegram: &PersonTarget{User: "ann"}},
		" ":                              {},
	} {
		kind, target := n.Target()
		require.Equal(t, want, fmt.Sprint(kind, " ", target))
	}
	require.Equal(t, "h", HostOf("https://u:p@h/x"))
}

// CheckCron accepts every cron expression in docs/ and in the help of the command line.
func TestDocumentedCronTexts(t *testing.T) {
	pages, err := filepath.Glob("../docs/*/*.md")
	require.NoError(t, err)
	examples := regexp.MustCompile(`(?:--cron |"cron": ?\[?)"([^"]+)"`)
	seen := 0
	for _, page := range append(pages, "../README.md", "../starter/cli/schedules.go", "../starter/cli/root.go") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range examples.FindAllStringSubmatch(string(text), -1) {
			require.NoError(t, CheckCron(found[1]), "%s: %s", page, found[1])
			seen++
		}
	}
	require.GreaterOrEqual(t, seen, 5)
}
