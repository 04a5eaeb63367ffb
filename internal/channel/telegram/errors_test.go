package telegram_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
)

func TestRefusals(t *testing.T) {
	b := newBench(t)
	refuse := make(chan error, 1)
	b.rt.Refuse = func(agent.Envelope) error {
		select {
		case err := <-refuse:
			return err
		default:
			return nil
		}
	}
	b.start(nil)
	for _, c := range []struct {
		err  error
		want string
	}{
		{agent.Invalid("message", "secret words"), "I cannot take this message."},
		{agent.Errorf(agent.CodeDenied, "", "secret words"), "You may not do that."},
		{agent.FieldErrorf(agent.CodeOverflow, "message", "secret words"), "That is too large for me."},
		{&agent.Error{Code: agent.CodeRateLimited, RetryAfter: 90 * time.Second, Err: agent.ErrLinkCode}, "That is too much at once. Please try again in 2 minutes."},
		{agent.Errorf(agent.CodeConflict, "", "secret words"), "I cannot take this message."},
	} {
		before := len(b.api.Messages(ann))
		refuse <- c.err
		b.api.Send(ann, "go")
		b.api.AwaitConfirmed()
		texts := b.api.Texts(ann)
		require.Len(t, texts, before+1)
		require.Equal(t, c.want, texts[before])
	}
	refuse <- agent.Errorf(agent.CodeUnavailable, "", "unavailable")
	b.api.Send(ann, "go")
	b.rt.Finish(b.awaitTurn(1), agent.TurnCompleted, "answer")
	b.api.AwaitMessage(ann, "answer")
}

func TestFailingUpdateIsGivenUp(t *testing.T) {
	b := newBench(t)
	b.rt.Refuse = func(e agent.Envelope) error {
		if e.Request.Message == "poison" {
			return agent.Errorf(agent.CodeInternal, "", "broken")
		}
		return nil
	}
	b.start(nil)
	b.api.Send(ann, "poison")
	b.api.Send(ann, "/help")
	b.api.AwaitMessage(ann, "could not take this")
	b.api.AwaitMessage(ann, "/whoami")
	b.api.AwaitConfirmed()
}

func TestTooManyRequests(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.api.Fail("sendMessage", telegramtest.Fault{Code: http.StatusTooManyRequests, Description: "retry later", RetryAfter: 1})
	id := b.ask("go", 1)
	b.rt.Emit(id, token("model/1", "first"))
	b.api.AwaitCalls("sendMessage", 1)
	start := time.Now()
	b.rt.Finish(id, agent.TurnCompleted, "last")
	b.api.AwaitTexts(ann, "last")
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond, "the pause that Telegram asked for")
	require.Len(t, b.api.Calls("sendMessage"), 2)
}

func TestBlocked(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id := b.ask("go", 1)
	b.api.Block(ann, true)
	b.rt.Emit(id, token("model/1", "first"))
	require.Eventually(t, func() bool { return b.store.Owed() == 0 && b.rt.Followers() == 0 }, testTimeout, time.Millisecond)
	b.rt.Finish(id, agent.TurnCompleted, "last")
	b.api.Block(ann, false)
	b.api.Send(ann, "/help")
	b.api.AwaitMessage(ann, "/whoami")
	require.Len(t, b.api.Messages(ann), 1)
}

// The final text is shown although requests to Telegram fail.
func TestTelegramErrors(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		fault  telegramtest.Fault
		output string
		want   []string
	}{
		"unavailable": {"editMessageText", telegramtest.Fault{Code: http.StatusBadGateway, Raw: "<html>", Times: 3}, "last", []string{"last"}},
		"refuses the formatting": {
			"editMessageText", telegramtest.Fault{Code: http.StatusBadRequest, Description: "can't parse entities"}, "**last**", []string{"last"},
		},
		"the answer was deleted": {
			"editMessageText", telegramtest.Fault{Code: http.StatusBadRequest, Description: "message to edit not found"}, "last", []string{"first", "last"},
		},
		"refuses the formatting of a new message": {
			"sendMessage", telegramtest.Fault{Code: http.StatusBadRequest, Description: "can't parse entities"}, "**last**", []string{"last"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.start(nil)
			id := b.ask("go", 1)
			if c.method == "editMessageText" {
				b.rt.Emit(id, token("model/1", "first"))
				b.api.AwaitTexts(ann, "first")
			}
			b.api.Fail(c.method, c.fault)
			b.rt.Finish(id, agent.TurnCompleted, c.output)
			b.api.AwaitTexts(ann, c.want...)
			for _, m := range b.api.Messages(ann) {
				require.Empty(t, m.Entities)
			}
		})
	}
}
