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
	noticeTime  = time.Minute // for a message that is no answer
	maxNotified = 64 << 10    // bytes of a notification
)

// Channel is the bot.
type Channel struct {
	cfg     Config
	api     *api
	account string // the bot's number
	process string // this process, as holder of answers
	metrics *metrics
	intake  *intake
	answers *answers

	username atomic.Pointer[string]
	inbox    atomic.Pointer[agent.Inbox] // while it serves
}

var (
	_ agent.Channel = (*Channel)(nil)
	_ http.Handler  = (*Channel)(nil)
)

// New returns a channel that connects when it serves. Its error names the setting.
func New(cfg Config) (*Channel, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Channel{cfg: cfg, process: uuid.NewString()}
	if c.account, err = cfg.account(); err != nil {
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
		bot.WithDefaultHandler(c.intake.polled), bot.WithErrorsHandler(c.pollFault()),
		bot.WithDebugHandler(func(string, ...any) {})) // it would hold what people say
	if err != nil {
		return nil, agent.Invalid("token", "%s", transport.without(err.Error()))
	}
	return c, nil
}

func allowedUpdates() bot.AllowedUpdates {
	return bot.AllowedUpdates{models.AllowedUpdateMessage, models.AllowedUpdateCallbackQuery}
}

// Serve talks to people until ctx ends. Then it takes no more messages and leaves the answers that are not complete to the next process. It
// returns an error when Telegram does not know the token; a Telegram that is away is waited for.
func (c *Channel) Serve(ctx context.Context, in agent.Inbox) error {
	if !c.inbox.CompareAndSwap(nil, &in) {
		return errors.New("telegram: serves already")
	}
	defer c.inbox.Store(nil)
	if err := c.introduce(ctx); err != nil || ctx.Err() != nil {
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

// receive takes updates until ctx ends.
func (c *Channel) receive(ctx context.Context) error {
	c.intake.open(ctx)
	if c.cfg.Updates == Webhook {
		err := insist(ctx, func() error {
			_, err := c.api.bot.SetWebhook(ctx, &bot.SetWebhookParams{
				URL: c.cfg.WebhookURL, SecretToken: c.cfg.WebhookSecret, AllowedUpdates: allowedUpdates(), MaxConnections: webhookConns,
			})
			return c.api.fault("setWebhook", err)
		})
		if err == nil {
			<-ctx.Done()
		}
		return unlessOver(ctx, err)
	}
	err := insist(ctx, func() error {
		_, err := c.api.bot.DeleteWebhook(ctx, &bot.DeleteWebhookParams{})
		return c.api.fault("deleteWebhook", err)
	})
	if err == nil {
		c.api.bot.Start(ctx)
	}
	return unlessOver(ctx, err)
}

// unlessOver is err, or nil when it is only the end of Serve.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// introduce asks Telegram who the bot is.
func (c *Channel) introduce(ctx context.Context) error {
	err := insist(ctx, func() error {
		me, err := c.api.bot.GetMe(ctx)
		if err == nil {
			c.username.Store(&me.Username)
			return nil
		}
		err = c.api.fault("getMe", err)
		if !rejected(err) && ctx.Err() == nil {
			c.cfg.Logger.Warn("Telegram does not answer yet", zap.Error(err))
		}
		return err
	})
	if err == nil {
		c.cfg.Logger.Info("talking in Telegram", zap.String("bot", c.name()), zap.String("updates", c.cfg.Updates))
	}
	return unlessOver(ctx, err)
}

// pollFault hears of failed polls. That another process polls is said once, until updates come here again.
func (c *Channel) pollFault() func(error) {
	return func(err error) {
		c.intake.expect(0)
		made := c.api.judge("telegram getUpdates", err)
		c.metrics.faults.WithLabelValues(string(made.Code)).Inc()
		switch made.Code {
		case agent.CodeCancelled:
		case agent.CodeConflict:
			if c.intake.rival.CompareAndSwap(false, true) {
				c.cfg.Logger.Warn("another process takes the bot's updates too: both go on trying; use the webhook for several", zap.Error(made))
			}
		default:
			c.cfg.Logger.Warn("taking updates", zap.Error(made))
		}
	}
}

// name is the bot's, without @; empty while nobody knows.
func (c *Channel) name() string {
	if p := c.username.Load(); p != nil {
		return *p
	}
	return ""
}

// LinkURL is where a person follows a code to the bot; empty until Telegram has said who the bot is.
func (c *Channel) LinkURL(code string) string {
	if c.name() == "" {
		return ""
	}
	return "https://t.me/" + c.name() + "?start=" + code
}

// Notify sends text to the chats of a user, best effort: the errors of those that could not be reached are joined. [agent.CodeNotFound] when
// the user has no chat here. It needs no Serve.
func (c *Channel) Notify(ctx context.Context, tenant, user, text string) error {
	const op = "notify by telegram"
	if len(text) > maxNotified {
		return agent.FieldErrorf(agent.CodeOverflow, "text", "is %d bytes, at most %d", len(text), maxNotified)
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
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	var faults []error
	for i := range page.Links {
		chat, err := strconv.ParseInt(page.Links[i].ChatID, 10, 64)
		if err != nil {
			faults = append(faults, agent.Errorf(agent.CodeInternal, op, "chat %q is none", page.Links[i].ChatID))
			continue
		}
		for _, p := range parts {
			if err := insist(ctx, func() error { _, err := c.api.send(ctx, chat, p, nil); return err }); err != nil {
				faults = append(faults, err)
				break
			}
		}
	}
	return errors.Join(faults...)
}

// say sends words that are no answer; that they did not arrive is only logged.
func (c *Channel) say(ctx context.Context, chat int64, words string) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	for _, p := range split(plain(sanitize(words)), maxMessage) {
		if err := insist(ctx, func() error { _, err := c.api.send(ctx, chat, p, nil); return err }); err != nil {
			c.cfg.Logger.Info("message not sent", zap.Int64("chat", chat), zap.Error(err))
			return
		}
	}
}

// record adds to the audit trail.
func (c *Channel) record(p *agent.Principal, a agent.Action, resource, outcome string) {
	if c.cfg.Audit == nil {
		return
	}
	c.cfg.Audit.Record(agent.AuditRecord{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Method: p.Method, Credential: p.Credential, Action: a, Resource: resource,
		Outcome: outcome, Channel: Name,
	})
}

func chatOf(id int64) agent.Chat { return agent.Chat{Channel: Name, ChatID: strconv.FormatInt(id, 10)} }
