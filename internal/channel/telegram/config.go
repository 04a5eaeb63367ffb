package telegram

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Name is the name of the channel in envelopes, links and principals.
const Name = "telegram"

// Values of [Config.Updates].
const (
	Polling = "polling"
	Webhook = "webhook"
)

// Defaults and bounds.
const (
	defaultAPIURL     = "https://api.telegram.org"
	defaultEditEvery  = time.Second
	defaultMaxAnswers = 256
	defaultImageBytes = 4 << 20
	defaultLease      = 30 * time.Second

	minEditEvery  = 10 * time.Millisecond
	maxAnswers    = 10_000
	maxImageBytes = 20 << 20 // the limit of the Bot API for downloads
	minLease      = 100 * time.Millisecond
)

// Audit stores the audit trail.
type Audit interface {
	Record(r agent.AuditRecord)
}

// Config is the configuration of [New]: the bot, and who may talk to it.
type Config struct {
	Token         string // of the bot: <id>:<secret>
	APIURL        string // "": https://api.telegram.org
	Updates       string // Polling or Webhook; "": Polling
	WebhookURL    string // public https address of [Channel.ServeHTTP]; Webhook only
	WebhookSecret string // 16 to 256 of A-Z a-z 0-9 _ -; Webhook only

	Tenant    string               // tenant of chats without a link; "": the default tenant
	Agent     string               // the agent that answers; "": routing decides
	Approvals agent.ApprovalPolicy // for calls that need an approval; "": the turn waits
	Unlinked  bool                 // whether chats without a link may talk to the bot; they never decide approvals
	// ApproverChat is a chat or group with the bot whose members may also decide approvals. 0: no such chat.
	ApproverChat int64

	Store Store // required
	Audit Audit // nil: no audit trail

	EditEvery     time.Duration // interval between two edits of a growing answer; 0: 1 s
	MaxAnswers    int           // how many answers are shown at once; others wait; 0: 256
	MaxImageBytes int64         // limit of a received picture; 0: 4 MiB
	Lease         time.Duration // how long a process may be silent before others take over its answers; 0: 30 s

	Logger  *zap.Logger
	Metrics prometheus.Registerer // nil: no metrics
}

var (
	tokenPattern  = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{20,128}$`)
	secretPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)
)

// withDefaults returns the configuration with defaults, or an error that names the invalid setting. No error contains the token or the secret.
func (c Config) withDefaults() (Config, error) {
	c.APIURL = strings.TrimRight(cmp.Or(c.APIURL, defaultAPIURL), "/")
	c.Updates = cmp.Or(c.Updates, Polling)
	c.Tenant = cmp.Or(c.Tenant, agent.DefaultTenant)
	c.EditEvery = cmp.Or(c.EditEvery, defaultEditEvery)
	c.MaxAnswers = cmp.Or(c.MaxAnswers, defaultMaxAnswers)
	c.MaxImageBytes = cmp.Or(c.MaxImageBytes, defaultImageBytes)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	switch {
	case !tokenPattern.MatchString(c.Token):
		return c, invalidToken()
	case c.Updates != Polling && c.Updates != Webhook:
		return c, agent.Invalid("updates", "want %s or %s, got %.20q", Polling, Webhook, c.Updates)
	case !agent.ValidName(c.Tenant):
		return c, agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case c.Agent != "" && !agent.ValidName(c.Agent):
		return c, agent.Invalid("agent", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case c.Store == nil:
		return c, agent.Invalid("store", "is missing")
	case c.EditEvery < minEditEvery:
		return c, agent.Invalid("edit_every", "is %s, at least %s", c.EditEvery, minEditEvery)
	case c.MaxAnswers < 1 || c.MaxAnswers > maxAnswers:
		return c, agent.Invalid("max_answers", "is %d, want 1 to %d", c.MaxAnswers, maxAnswers)
	case c.MaxImageBytes < 1 || c.MaxImageBytes > maxImageBytes:
		return c, agent.Invalid("max_image_bytes", "is %d, want 1 to %d", c.MaxImageBytes, maxImageBytes)
	case c.Lease < minLease:
		return c, agent.Invalid("lease", "is %s, at least %s", c.Lease, minLease)
	}
	if err := checkURL("api_url", c.APIURL, "http", "https"); err != nil {
		return c, err
	}
	if c.Updates == Polling {
		return c, nil
	}
	if !secretPattern.MatchString(c.WebhookSecret) {
		return c, agent.Invalid("webhook_secret", "want 16 to 256 of A-Z a-z 0-9 _ -")
	}
	return c, checkURL("webhook_url", c.WebhookURL, "https")
}

func invalidToken() error {
	return agent.Invalid("token", "is not a bot token: want <number>:<secret>")
}

func checkURL(field, address string, schemes ...string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" {
		return agent.Invalid(field, "is not a URL of a scheme, a host and a path")
	}
	if !slices.Contains(schemes, u.Scheme) {
		return agent.Invalid(field, "want a URL that begins with %s://", strings.Join(schemes, ":// or "))
	}
	return nil
}

// botID returns the bot's id, which is the public part of the token.
func (c *Config) botID() (string, error) {
	id, _, _ := strings.Cut(c.Token, ":")
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n <= 0 {
		return "", invalidToken()
	}
	return strconv.FormatInt(n, 10), nil
}

// metrics are the channel's metrics. Their labels have few values, none of which a user chooses.
type metrics struct {
	updates   *prometheus.CounterVec
	answers   *prometheus.CounterVec
	apiErrors *prometheus.CounterVec
	showing   prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	newCounter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		updates:   newCounter("telegram_updates_total", "Updates of the Telegram bot, by kind: message, command, press, other.", "kind"),
		answers:   newCounter("telegram_answers_total", "Answers that the Telegram bot owed, by outcome: shown, blocked, left.", "outcome"),
		apiErrors: newCounter("telegram_api_errors_total", "Requests to the Bot API that went wrong, by code.", "code"),
		showing:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "telegram_answers_in_progress", Help: "Turns whose answers the Telegram bot shows."}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.updates, m.answers, m.apiErrors, m.showing} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of telegram: %w", err)
		}
	}
	return m, nil
}
