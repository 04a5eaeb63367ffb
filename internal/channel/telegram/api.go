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

// maxErrorBytes bounds the part of Telegram's error texts that is kept.
const maxErrorBytes = 300

// countError converts an error of a method and counts it. It returns nil for nil.
func (a *api) countError(method string, err error) error {
	if err == nil {
		return nil
	}
	converted := a.convertError("telegram "+method, err)
	a.metrics.faults.WithLabelValues(string(converted.Code)).Inc()
	return converted
}

// convertError returns an error of the library with a code and without the token.
func (a *api) convertError(op string, err error) *agent.Error {
	text := a.transport.redact(err.Error())
	text = clip.Bytes(text, maxErrorBytes)
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
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound): // the path holds the token: an unknown one is not found
		converted.Code = agent.CodeUnauthenticated
	case errors.Is(err, bot.ErrorBadRequest):
		converted.Code = badRequestCode(text)
	}
	return converted
}

// badRequestCode returns the code of a bad request by its text: Telegram has one number for all.
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

// isPermanent reports whether retrying a request cannot help.
func isPermanent(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeRateLimited, agent.CodeUnavailable, agent.CodeCancelled, agent.CodeConflict, "":
		return false
	default:
		return true
	}
}

// send sends a message and returns its number, without formatting if Telegram refuses that. It goes on when ctx ends meanwhile: otherwise the
// message's number would be lost.
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

// edit changes a message to p. It is no error if the message has that text already.
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

// answerPress ends the press of a button and shows a text to whoever pressed it.
func (a *api) answerPress(ctx context.Context, query, text string, alert bool) error {
	_, err := a.bot.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{CallbackQueryID: query, Text: clipUnits(text, 200), ShowAlert: alert})
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
	address, err := url.Parse(a.bot.FileDownloadLink(f))
	if err != nil {
		return nil, a.countError(op, errors.New("the file's path is no path"))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, a.countError(op, errors.New("the file's path is no path"))
	}
	resp, err := a.transport.send(r, requestTime, maxBytes+1)
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

// retry calls do until it succeeds, fails for good, or ctx ends.
func retry(ctx context.Context, do func() error) error {
	return retryWith(ctx, func(ctx context.Context, d time.Duration) error {
		pause(ctx, d)
		return nil
	}, do)
}

// retryWith is [retry] with another way to wait between two calls. An error of wait ends it.
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

// retryAfter returns the pause that the other side asked for; 0 if it asked for none.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// newBackoff returns pauses that grow from 200 ms to 15 s.
func newBackoff() *backoff.ExponentialBackOff {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 15*time.Second
	return wait
}

// pause waits for d, and reports whether it did so before ctx ended.
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
