package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// api is the Bot API with errors that have an [agent.Code] and never the token:
//
//	denied           the person blocked the bot, or the chat is gone
//	not_found        the message is gone
//	invalid          the request was not understood
//	rate_limited     too many requests, with RetryAfter
//	conflict         another process polls, or a webhook is set
//	unauthenticated  the token is not accepted
//	unavailable      anything that may pass
type api struct {
	bot       *bot.Bot
	transport *transport
	metrics   *metrics
	url       string
}

// maxFault bounds what of Telegram's words is kept.
const maxFault = 300

func (a *api) fault(method string, err error) error {
	if err == nil {
		return nil
	}
	made := a.judge("telegram "+method, err)
	a.metrics.faults.WithLabelValues(string(made.Code)).Inc()
	return made
}

func (a *api) judge(op string, err error) *agent.Error {
	words := a.transport.without(err.Error())
	words = clip.Bytes(words, maxFault)
	made := &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: errors.New(words)}
	var busy *bot.TooManyRequestsError
	var moved *bot.MigrateError
	switch {
	case errors.Is(err, context.Canceled):
		made.Code, made.Err = agent.CodeCancelled, context.Canceled
	case errors.As(err, &busy):
		made.Code, made.RetryAfter = agent.CodeRateLimited, max(time.Duration(busy.RetryAfter)*time.Second, time.Second)
	case errors.Is(err, bot.ErrorForbidden), errors.As(err, &moved):
		made.Code = agent.CodeDenied
	case errors.Is(err, bot.ErrorConflict):
		made.Code = agent.CodeConflict
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound): // the path holds the token: an unknown one is not found
		made.Code = agent.CodeUnauthenticated
	case errors.Is(err, bot.ErrorBadRequest):
		made.Code = codeOfWords(words)
	}
	return made
}

// codeOfWords tells bad requests apart, for which Telegram has but one number.
func codeOfWords(words string) agent.Code {
	words = strings.ToLower(words)
	for _, gone := range []string{"message to edit not found", "message can't be edited", "message to delete not found", "message_id_invalid"} {
		if strings.Contains(words, gone) {
			return agent.CodeNotFound
		}
	}
	for _, gone := range []string{"chat not found", "user is deactivated", "peer_id_invalid", "bot was kicked", "have no rights to send"} {
		if strings.Contains(words, gone) {
			return agent.CodeDenied
		}
	}
	return agent.CodeInvalid
}

// rejected reports whether a request was understood and can never succeed as it is.
func rejected(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeRateLimited, agent.CodeUnavailable, agent.CodeCancelled, agent.CodeConflict, "":
		return false
	default:
		return true
	}
}

// send sends a message and returns its number. Formatting that Telegram does not take is left out. Once begun it is not broken off when ctx ends:
// nobody would know the message's number.
func (a *api) send(ctx context.Context, chat int64, p piece, buttons *keyboard) (int64, error) {
	if err := agent.Interrupted(ctx, "telegram sendMessage"); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // the transport bounds it
	params := bot.SendMessageParams{ChatID: chat, Text: p.text, Entities: p.entities, LinkPreviewOptions: noPreview()}
	if buttons != nil {
		params.ReplyMarkup = buttons
	}
	m, err := a.bot.SendMessage(ctx, &params)
	if err = a.fault("sendMessage", err); agent.CodeOf(err) == agent.CodeInvalid && len(params.Entities) > 0 {
		params.Entities = nil
		m, err = a.bot.SendMessage(ctx, &params)
		err = a.fault("sendMessage", err)
	}
	if err != nil {
		return 0, err
	}
	return int64(m.ID), nil
}

// edit makes a message say p; that it says so already is fine.
func (a *api) edit(ctx context.Context, chat, message int64, p piece, buttons *keyboard) error {
	params := bot.EditMessageTextParams{
		ChatID: chat, MessageID: int(message), Text: p.text, Entities: p.entities, LinkPreviewOptions: noPreview(),
	}
	if buttons != nil {
		params.ReplyMarkup = buttons
	}
	for {
		_, err := a.bot.EditMessageText(ctx, &params)
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "message is not modified") {
			return nil
		}
		err = a.fault("editMessageText", err)
		if agent.CodeOf(err) != agent.CodeInvalid || len(params.Entities) == 0 {
			return err
		}
		params.Entities = nil
	}
}

func noPreview() *models.LinkPreviewOptions {
	return &models.LinkPreviewOptions{IsDisabled: bot.True()}
}

func (a *api) remove(ctx context.Context, chat, message int64) error {
	_, err := a.bot.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: chat, MessageID: int(message)})
	return a.fault("deleteMessage", err)
}

func (a *api) typing(ctx context.Context, chat int64) error {
	_, err := a.bot.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: chat, Action: models.ChatActionTyping})
	return a.fault("sendChatAction", err)
}

// answer ends a press of a button; words are shown to whoever pressed.
func (a *api) answer(ctx context.Context, query, words string, alert bool) error {
	_, err := a.bot.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{CallbackQueryID: query, Text: clipUnits(words, 200), ShowAlert: alert})
	return a.fault("answerCallbackQuery", err)
}

// download fetches a file of at most so many bytes.
func (a *api) download(ctx context.Context, id string, most int64) ([]byte, error) {
	const op = "getFile"
	f, err := a.bot.GetFile(ctx, &bot.GetFileParams{FileID: id})
	if err != nil {
		return nil, a.fault(op, err)
	}
	if f.FileSize > most {
		return nil, tooBig(most)
	}
	at, err := url.Parse(a.bot.FileDownloadLink(f))
	if err != nil {
		return nil, a.fault(op, errors.New("the file's path is no path"))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, a.fault(op, errors.New("the file's path is no path"))
	}
	resp, err := a.transport.do(r, requestTime, most+1)
	if err != nil {
		return nil, a.fault(op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, a.fault(op, fmt.Errorf("status %d", resp.StatusCode))
	}
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, a.fault(op, err)
	case int64(len(data)) > most:
		return nil, tooBig(most)
	}
	return data, nil
}

func tooBig(most int64) error {
	return agent.Errorf(agent.CodeOverflow, "", "the file is larger than %d bytes", most)
}

// insist does something until it is done, Telegram rejects it, or ctx ends.
func insist(ctx context.Context, do func() error) error {
	wait := patience()
	for {
		err := do()
		if err == nil || rejected(err) || ctx.Err() != nil {
			return err
		}
		if !pause(ctx, max(wait.NextBackOff(), asked(err))) {
			return err
		}
	}
}

// asked is how long the other side asked to wait.
func asked(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// patience grows from a fifth of a second to a quarter of a minute.
func patience() *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 15*time.Second
	return wait
}

// pause waits, and reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
