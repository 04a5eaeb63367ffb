package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// api calls the Bot API. Its errors never contain the token. They have an [agent.Code]:
//
//	denied           the person blocked the bot, or the chat was deleted
//	not_found        the message was deleted
//	invalid          Telegram refused the request
//	rate_limited     there were too many requests; RetryAfter is set
//	conflict         another process polls, or a webhook is set
//	unauthenticated  Telegram refused the token
//	unavailable      any other error; a retry may help
type api struct {
	bot       *bot.Bot
	transport *transport
	metrics   *metrics
	url       string
}

// maxErrorBytes is how much of an error text of Telegram is kept.
const maxErrorBytes = 300

// countError converts the error of a method as convertError does, and counts it. It returns nil for nil.
func (a *api) countError(method string, err error) error {
	if err == nil {
		return nil
	}
	converted := a.convertError("telegram "+method, err)
	a.metrics.apiErrors.WithLabelValues(string(converted.Code)).Inc()
	return converted
}

// convertError returns an error of the library with the code that matches it, and without the token.
func (a *api) convertError(op string, err error) *agent.Error {
	text := clip.Bytes(a.transport.redact(err.Error()), maxErrorBytes)
	converted := &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: errors.New(text)}
	var busy *bot.TooManyRequestsError
	var moved *bot.MigrateError
	switch {
	case errors.Is(err, context.Canceled):
		converted.Code, converted.Err = agent.CodeCancelled, context.Canceled
	case errors.As(err, &busy):
		converted.Code, converted.RetryAfter = agent.CodeRateLimited, max(time.Duration(busy.RetryAfter)*time.Second, time.Second)
	case errors.Is(err, bot.ErrorForbidden), errors.As(err, &moved):
		converted.Code = agent.CodeDenied
	case errors.Is(err, bot.ErrorConflict):
		converted.Code = agent.CodeConflict
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound): // the token is part of the path, so an unknown token is a 404
		converted.Code = agent.CodeUnauthenticated
	case errors.Is(err, bot.ErrorBadRequest):
		converted.Code = badRequestCode(text)
	}
	return converted
}

// badRequestCode returns the code for the text of a bad request. Telegram gives all of them status 400.
func badRequestCode(text string) agent.Code {
	text = strings.ToLower(text)
	for _, part := range []string{"message to edit not found", "message can't be edited", "message to delete not found", "message_id_invalid"} {
		if strings.Contains(text, part) {
			return agent.CodeNotFound
		}
	}
	for _, part := range []string{"chat not found", "user is deactivated", "peer_id_invalid", "bot was kicked", "have no rights to send"} {
		if strings.Contains(text, part) {
			return agent.CodeDenied
		}
	}
	return agent.CodeInvalid
}

// isPermanent reports whether a retry after err cannot help.
func isPermanent(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeRateLimited, agent.CodeUnavailable, agent.CodeCancelled, agent.CodeConflict, "":
		return false
	default:
		return true
	}
}

// send sends a message and returns its number. If Telegram refuses the formatting, it sends the text alone. A request that has begun goes on when
// ctx ends, so that the message's number is not lost.
func (a *api) send(ctx context.Context, chat int64, p piece, buttons *keyboard) (int64, error) {
	if err := agent.Interrupted(ctx, "telegram sendMessage"); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // the transport limits the time
	params := bot.SendMessageParams{ChatID: chat, Text: p.text, Entities: p.entities, LinkPreviewOptions: noPreview()}
	if buttons != nil {
		params.ReplyMarkup = buttons
	}
	m, err := a.bot.SendMessage(ctx, &params)
	if err = a.countError("sendMessage", err); agent.CodeOf(err) == agent.CodeInvalid && len(params.Entities) > 0 {
		params.Entities = nil
		m, err = a.bot.SendMessage(ctx, &params)
		err = a.countError("sendMessage", err)
	}
	if err != nil {
		return 0, err
	}
	return int64(m.ID), nil
}

// edit changes the text of a message to p. It returns nil if the message has that text already.
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
		err = a.countError("editMessageText", err)
		if agent.CodeOf(err) != agent.CodeInvalid || len(params.Entities) == 0 {
			return err
		}
		params.Entities = nil
	}
}

func noPreview() *models.LinkPreviewOptions {
	return &models.LinkPreviewOptions{IsDisabled: bot.True()}
}

func (a *api) deleteMessage(ctx context.Context, chat, message int64) error {
	_, err := a.bot.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: chat, MessageID: int(message)})
	return a.countError("deleteMessage", err)
}

func (a *api) sendTyping(ctx context.Context, chat int64) error {
	_, err := a.bot.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: chat, Action: models.ChatActionTyping})
	return a.countError("sendChatAction", err)
}

// answerPress shows a text to the person who pressed a button.
func (a *api) answerPress(ctx context.Context, query, text string) error {
	_, err := a.bot.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{CallbackQueryID: query, Text: clipUnits(text, 200)})
	return a.countError("answerCallbackQuery", err)
}

// download returns the content of a file of at most maxBytes.
func (a *api) download(ctx context.Context, id string, maxBytes int64) ([]byte, error) {
	const op = "getFile"
	f, err := a.bot.GetFile(ctx, &bot.GetFileParams{FileID: id})
	if err != nil {
		return nil, a.countError(op, err)
	}
	if f.FileSize > maxBytes {
		return nil, fileTooLarge(maxBytes)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.bot.FileDownloadLink(f), http.NoBody)
	if err != nil {
		return nil, a.countError(op, errors.New("the file has an invalid path"))
	}
	resp, err := a.transport.send(r, requestTimeout, maxBytes+1)
	if err != nil {
		return nil, a.countError(op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, a.countError(op, fmt.Errorf("status %d", resp.StatusCode))
	}
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, a.countError(op, err)
	case int64(len(data)) > maxBytes:
		return nil, fileTooLarge(maxBytes)
	}
	return data, nil
}

func fileTooLarge(maxBytes int64) error {
	return agent.Errorf(agent.CodeOverflow, "", "the file is larger than %d bytes", maxBytes)
}

// retry calls do until it succeeds, fails permanently, or ctx ends.
func retry(ctx context.Context, do func() error) error {
	return retryWith(ctx, func(ctx context.Context, d time.Duration) error {
		pause(ctx, d)
		return nil
	}, do)
}

// retryWith is [retry] with another function that waits between two calls. It ends if wait returns an error.
func retryWith(ctx context.Context, wait func(context.Context, time.Duration) error, do func() error) error {
	pauses := newBackoff()
	for {
		err := do()
		if err == nil || isPermanent(err) || ctx.Err() != nil {
			return err
		}
		if waitErr := wait(ctx, max(pauses.NextBackOff(), retryAfter(err))); waitErr != nil {
			return errors.Join(waitErr, err)
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// retryAfter returns the pause that err asks for, or 0.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// newBackoff returns a backoff whose pauses grow from 200 ms to 15 s.
func newBackoff() *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 15*time.Second
	return wait
}

// pause waits for d. It returns false if ctx ends first.
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
