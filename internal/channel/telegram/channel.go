package telegram

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	noticeTimeout        = time.Minute // for one of the bot's own messages
	maxNotificationBytes = 64 << 10
)

// Channel is one bot.
type Channel struct {
	cfg       Config
	api       *api
	account   string // the bot's id
	processID string // identifies this process in the leases of answers
	metrics   *metrics
	intake    *intake
	answers   *answers

	username atomic.Pointer[string]
	inbox    atomic.Pointer[agent.Inbox] // nil unless Serve runs
}

var (
	_ agent.Channel = (*Channel)(nil)
	_ http.Handler  = (*Channel)(nil)
)

// New returns a channel that connects to Telegram in [Channel.Serve]. An error names the invalid setting.
func New(cfg Config) (*Channel, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Channel{cfg: cfg, processID: uuid.NewString()}
	if c.account, err = cfg.botID(); err != nil {
		return nil, err
	}
	if c.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, err
	}
	c.intake = newIntake(c)
	c.answers = newAnswers(c)
	transport := newTransport(cfg.Token, c.intake)
	c.api = &api{transport: transport, metrics: c.metrics, url: cfg.APIURL}
	c.api.bot, err = bot.New(cfg.Token, bot.WithSkipGetMe(), bot.WithServerURL(cfg.APIURL), bot.WithHTTPClient(pollTime+time.Second, transport),
		bot.WithAllowedUpdates(allowedUpdates()), bot.WithUpdatesChannelCap(1), bot.WithWorkers(1), bot.WithNotAsyncHandlers(),
		bot.WithDefaultHandler(c.intake.handlePolled), bot.WithErrorsHandler(c.onPollError()),
		bot.WithDebugHandler(func(string, ...any) {})) // debug output contains people's messages
	if err != nil {
		return nil, agent.Invalid("token", "%s", transport.redact(err.Error()))
	}
	return c, nil
}

func allowedUpdates() bot.AllowedUpdates {
	return bot.AllowedUpdates{models.AllowedUpdateMessage, models.AllowedUpdateCallbackQuery}
}

// Serve receives messages and shows answers until ctx ends. Incomplete answers are left to the next process. Serve returns an error if Telegram
// refuses the token. While Telegram is unavailable, it retries.
func (c *Channel) Serve(ctx context.Context, in agent.Inbox) error {
	if !c.inbox.CompareAndSwap(nil, &in) {
		return errors.New("telegram: already serving")
	}
	defer c.inbox.Store(nil)
	if err := c.fetchUsername(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	c.answers.open(ctx, in)
	serving.Go(func() { c.answers.serve(ctx) })
	err := c.receive(ctx)
	stop()
	c.intake.close()
	serving.Wait()
	return err
}

// receive receives updates until ctx ends.
func (c *Channel) receive(ctx context.Context) error {
	c.intake.open(ctx)
	if c.cfg.Updates == Webhook {
		err := retry(ctx, func() error {
			_, err := c.api.bot.SetWebhook(ctx, &bot.SetWebhookParams{
				URL: c.cfg.WebhookURL, SecretToken: c.cfg.WebhookSecret, AllowedUpdates: allowedUpdates(), MaxConnections: webhookConns,
			})
			return c.api.countError("setWebhook", err)
		})
		if err == nil {
			<-ctx.Done()
		}
		return ignoreIfEnded(ctx, err)
	}
	err := retry(ctx, func() error {
		_, err := c.api.bot.DeleteWebhook(ctx, &bot.DeleteWebhookParams{})
		return c.api.countError("deleteWebhook", err)
	})
	if err == nil {
		c.api.bot.Start(ctx)
	}
	return ignoreIfEnded(ctx, err)
}

// ignoreIfEnded returns err, or nil if ctx has ended.
func ignoreIfEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// fetchUsername asks Telegram for the bot's username and stores it.
func (c *Channel) fetchUsername(ctx context.Context) error {
	err := retry(ctx, func() error {
		me, err := c.api.bot.GetMe(ctx)
		if err == nil {
			c.username.Store(&me.Username)
			return nil
		}
		err = c.api.countError("getMe", err)
		if !isPermanent(err) && ctx.Err() == nil {
			c.cfg.Logger.Warn("Telegram does not answer yet", zap.Error(err))
		}
		return err
	})
	if err == nil {
		c.cfg.Logger.Info("serving Telegram", zap.String("bot", c.botName()), zap.String("updates", c.cfg.Updates))
	}
	return ignoreIfEnded(ctx, err)
}

// onPollError returns the handler of failed polls. It logs the first of several conflicts with another process that polls the bot.
func (c *Channel) onPollError() func(error) {
	return func(err error) {
		c.intake.setExpected(0)
		converted := c.api.convertError("telegram getUpdates", err)
		c.metrics.apiErrors.WithLabelValues(string(converted.Code)).Inc()
		switch converted.Code {
		case agent.CodeCancelled:
		case agent.CodeConflict:
			if c.intake.loggedConflict.CompareAndSwap(false, true) {
				c.cfg.Logger.Warn("another process polls this bot too: use the webhook to run several processes", zap.Error(converted))
			}
		default:
			c.cfg.Logger.Warn("poll updates", zap.Error(converted))
		}
	}
}

// botName returns the bot's username without @, or "" before Telegram has sent it.
func (c *Channel) botName() string {
	if p := c.username.Load(); p != nil {
		return *p
	}
	return ""
}

// LinkURL returns the URL that opens the bot with a link code, or "" before Telegram has sent the bot's username.
func (c *Channel) LinkURL(code string) string {
	if c.botName() == "" {
		return ""
	}
	return "https://t.me/" + c.botName() + "?start=" + code
}

// Notify sends a text to all chats of a user and joins the errors of those that it could not reach. The error is [agent.CodeNotFound] if the user
// has no chat. Serve need not run.
func (c *Channel) Notify(ctx context.Context, tenant, user, text string) error {
	const op = "notify by telegram"
	if len(text) > maxNotificationBytes {
		return agent.FieldErrorf(agent.CodeOverflow, "text", "is %d bytes, at most %d", len(text), maxNotificationBytes)
	}
	parts := split(render(text), maxMessage)
	if len(parts) == 0 {
		return agent.Invalid("text", "is empty")
	}
	page, err := c.cfg.Store.Links(ctx, agent.LinkQuery{Tenant: tenant, Channel: Name, UserID: user, PageSize: agent.MaxUserLinks})
	if err != nil {
		return err
	}
	if user == "" || len(page.Links) == 0 {
		return agent.Errorf(agent.CodeNotFound, op, "user %.100q of tenant %.100q is linked to no chat", user, tenant)
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	var errs []error
	for i := range page.Links {
		chat, err := strconv.ParseInt(page.Links[i].ChatID, 10, 64)
		if err != nil {
			errs = append(errs, agent.Errorf(agent.CodeInternal, op, "chat id %q is not a number", page.Links[i].ChatID))
			continue
		}
		errs = append(errs, c.sendPieces(ctx, chat, parts))
	}
	return errors.Join(errs...)
}

// sendPieces sends each piece as a message, in order, with retries.
func (c *Channel) sendPieces(ctx context.Context, chat int64, parts []piece) error {
	for _, p := range parts {
		if err := retry(ctx, func() error { _, err := c.api.send(ctx, chat, p, nil); return err }); err != nil {
			return err
		}
	}
	return nil
}

// sendText sends one of the bot's own messages. A failure is only logged.
func (c *Channel) sendText(ctx context.Context, chat int64, text string) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := c.sendPieces(ctx, chat, split(plainText(sanitize(text)), maxMessage)); err != nil {
		c.cfg.Logger.Info("message not sent", zap.Int64("chat", chat), zap.Error(err))
	}
}

// recordAudit records an action of a principal, if an audit trail is configured.
func (c *Channel) recordAudit(p *agent.Principal, action agent.Action, resource, outcome string) {
	if c.cfg.Audit == nil {
		return
	}
	c.cfg.Audit.Record(agent.AuditRecord{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Method: p.Method, Credential: p.Credential, Action: action, Resource: resource,
		Outcome: outcome, Channel: Name,
	})
}

func chatOf(id int64) agent.Chat { return agent.Chat{Channel: Name, ChatID: strconv.FormatInt(id, 10)} }
