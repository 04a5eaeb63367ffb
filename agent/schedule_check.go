package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Bounds of a schedule.
const (
	MaxScheduleName    = 64
	MaxScheduleMessage = 64 << 10
	maxScheduleText    = 1000 // bytes of a description, a note, a quiet answer
	maxScheduleData    = 64 << 10
	maxCrons           = 16
	maxNotifications   = 8
	maxMailTargets     = 20
	maxTargetURL       = 2000
	minEvery           = time.Second
	minCatchUp         = 10 * time.Second // the minimum of Temporal
	maxScheduleSpan    = 366 * 24 * time.Hour
	maxJitter          = 24 * time.Hour
)

// Validate checks the schedule. Field of its error is the invalid field.
func (s *Schedule) Validate() error {
	switch {
	case !ValidName(s.Name) || len(s.Name) > MaxScheduleName:
		return Invalid("name", "want 1 to %d of A-Z a-z 0-9 . _ -", MaxScheduleName)
	case s.Kind != "" && s.Kind != ScheduleRuns && s.Kind != ScheduleHeartbeat:
		return Invalid("kind", "want scheduled or heartbeat, got %.60q", s.Kind)
	case s.Agent != "" && !ValidName(s.Agent):
		return Invalid("agent", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case strings.TrimSpace(s.Message) == "":
		return Invalid("message", "is empty: what is the agent told?")
	case len(s.Message) > MaxScheduleMessage:
		return FieldErrorf(CodeOverflow, "message", "is %d bytes, at most %d", len(s.Message), MaxScheduleMessage)
	case s.Quiet != "" && s.Kind != ScheduleHeartbeat:
		return Invalid("quiet", "is for the kind heartbeat")
	case s.Model != "" && !ValidName(s.Model):
		return Invalid("model", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case len(s.UserID) > 256 || hasControl(s.UserID):
		return Invalid("user_id", "want at most 256 bytes without control characters")
	}
	for _, text := range []struct{ field, value string }{{"description", s.Description}, {"note", s.Note}, {"quiet", s.Quiet}} {
		if len(text.value) > maxScheduleText {
			return FieldErrorf(CodeOverflow, text.field, "is %d bytes, at most %d", len(text.value), maxScheduleText)
		}
	}
	if err := s.validateTimes(); err != nil {
		return err
	}
	if s.Limits != nil {
		if err := s.Limits.Validate("limits"); err != nil {
			return err
		}
	}
	if err := s.validateData(); err != nil {
		return err
	}
	if err := s.Approvals.Validate("approvals"); err != nil {
		return err
	}
	if len(s.Notify) > maxNotifications {
		return FieldErrorf(CodeOverflow, "notify", "has %d targets, at most %d", len(s.Notify), maxNotifications)
	}
	for i := range s.Notify {
		if err := s.Notify[i].validate(fmt.Sprintf("notify[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schedule) validateTimes() error {
	switch {
	case len(s.Cron) == 0 && s.Every == "":
		return Invalid("cron", "is missing: when does it run? Give cron, every, or both")
	case len(s.Cron) > maxCrons:
		return FieldErrorf(CodeOverflow, "cron", "has %d entries, at most %d", len(s.Cron), maxCrons)
	case s.StartAt != nil && s.EndAt != nil && !s.EndAt.After(*s.StartAt):
		return Invalid("end_at", "is not after start_at")
	}
	for i, text := range s.Cron {
		if err := CheckCron(text); err != nil {
			return Invalid(fmt.Sprintf("cron[%d]", i), "%w", err)
		}
	}
	if s.TimeZone != "" {
		if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
			return Invalid("time_zone", "there is no time zone %.60q: want a name such as Europe/Berlin", s.TimeZone)
		}
	}
	for _, d := range []struct {
		field, text      string
		minimum, maximum time.Duration
	}{
		{"every", s.Every, minEvery, maxScheduleSpan},
		{"jitter", s.Jitter, 0, maxJitter},
		{"catch_up_window", s.CatchUpWindow, minCatchUp, maxScheduleSpan},
	} {
		if d.text == "" {
			continue
		}
		duration, err := time.ParseDuration(d.text)
		switch {
		case err != nil:
			return Invalid(d.field, "want a duration such as 90s, 15m or 24h, got %.40q", d.text)
		case duration < d.minimum || duration > d.maximum:
			return Invalid(d.field, "is %s, want %s to %s", duration, d.minimum, d.maximum)
		case duration%time.Second != 0:
			return Invalid(d.field, "is %s, want whole seconds", duration)
		}
	}
	switch s.Overlap {
	case "", OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther, OverlapTerminate, OverlapAllowAll:
		return nil
	default:
		return Invalid("overlap", "want skip, buffer_one, buffer_all, cancel_other, terminate_other or allow_all, got %.60q", s.Overlap)
	}
}

func (s *Schedule) validateData() error {
	dropNull(&s.OutputSchema)
	metadata, err := json.Marshal(s.Metadata)
	switch {
	case err != nil:
		return Invalid("metadata", "%w", err)
	case len(metadata) > maxScheduleData:
		return FieldErrorf(CodeOverflow, "metadata", "is %d bytes, at most %d", len(metadata), maxScheduleData)
	case len(s.OutputSchema) > maxScheduleData:
		return FieldErrorf(CodeOverflow, "output_schema", "is %d bytes, at most %d", len(s.OutputSchema), maxScheduleData)
	case len(s.OutputSchema) > 0:
		var object map[string]json.RawMessage
		if json.Unmarshal(s.OutputSchema, &object) != nil || object == nil {
			return Invalid("output_schema", "want a JSON object")
		}
	}
	return nil
}

func (n *Notification) validate(path string) error {
	switch n.On {
	case "", NotifyAlways, NotifySuccess, NotifyFailure, NotifyChange:
	default:
		return Invalid(path+".on", "want always, success, failure or change, got %.60q", n.On)
	}
	targets := 0
	for _, isSet := range []bool{n.Webhook != nil, n.Email != nil, n.Telegram != nil} {
		if isSet {
			targets++
		}
	}
	switch {
	case targets != 1:
		return Invalid(path, "want exactly one of webhook, email and telegram, got %d", targets)
	case n.Webhook != nil:
		return n.Webhook.validate(path + ".webhook")
	case n.Email != nil:
		return n.Email.validate(path + ".email")
	case n.Telegram.User == "" || len(n.Telegram.User) > 256 || hasControl(n.Telegram.User):
		return Invalid(path+".telegram.user", "want 1 to 256 bytes without control characters")
	}
	return nil
}

func (t *HookTarget) validate(path string) error {
	isWeb := strings.HasPrefix(t.URL, "http://") || strings.HasPrefix(t.URL, "https://")
	authority := authorityOf(t.URL)
	switch {
	case len(t.URL) > maxTargetURL:
		return FieldErrorf(CodeOverflow, path+".url", "is %d bytes, at most %d", len(t.URL), maxTargetURL)
	case !isWeb || HostOf(t.URL) == "":
		return Invalid(path+".url", "want http:// or https:// and a host")
	case strings.ContainsAny(t.URL, " \\\"<>`{}|^") || hasControl(t.URL):
		return Invalid(path+".url", "has a character that no URL has")
	case strings.Contains(authority, "@"):
		return Invalid(path+".url", "holds a user or a password: name an auth profile in auth")
	case t.Auth != "" && !ValidName(t.Auth):
		return Invalid(path+".auth", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return nil
}

func (t *MailTarget) validate(path string) error {
	switch {
	case len(t.To) == 0:
		return Invalid(path+".to", "is empty: who gets the mail?")
	case len(t.To) > maxMailTargets:
		return FieldErrorf(CodeOverflow, path+".to", "has %d addresses, at most %d", len(t.To), maxMailTargets)
	}
	for i, to := range t.To {
		name, domain, _ := strings.Cut(to, "@")
		if name == "" || domain == "" || len(to) > 320 || hasControl(to) {
			return Invalid(fmt.Sprintf("%s.to[%d]", path, i), "%.80q is no address", to)
		}
	}
	return nil
}

// HostOf returns the host and port of an http URL. Unlike other parts of the URL, they contain no secret.
func HostOf(address string) string {
	authority := authorityOf(address)
	return authority[strings.LastIndexByte(authority, '@')+1:]
}

// authorityOf returns the authority of a URL: user, password, host and port.
func authorityOf(address string) string {
	_, authority, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		return authority[:end]
	}
	return authority
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Target returns the kind and the address of the recipient, without secrets.
func (n *Notification) Target() (kind, target string) {
	switch {
	case n.Webhook != nil:
		return "webhook", HostOf(n.Webhook.URL)
	case n.Email != nil:
		return "email", strings.Join(n.Email.To, ", ")
	case n.Telegram != nil:
		return "telegram", n.Telegram.User
	default:
		return "", ""
	}
}
