package console_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// escape is the key Esc.
const escape = '\u001b'

func testAnswer(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		rt.Say(id, "You said **"+r.Message+"**.")
	}
	p := b.open(t, h.url, "/")
	p.sees("What should be done?")
	p.until(`document.activeElement.id === 'message'`)
	p.say("hello there")
	p.until(`document.querySelector('.prose strong')?.textContent === 'hello there'`)
	p.sees("analyst · offline · 1.2 s · 15 tokens")
	p.until(`document.querySelector('.conversations .title').textContent === 'hello there' && document.title.startsWith('hello there')`)
	p.until(`document.querySelector('.answer').ariaBusy === 'false'`)

	first := h.Submitted()[0].Request
	require.Equal(t, "hello there", first.Message)
	require.Empty(t, first.Agent)
	require.Equal(t, "#/chat/"+string(first.SessionID)+"/"+string(first.TurnID), eval[string](p, `location.hash`))
	require.Equal(t, "http://127.0.0.1:8233/namespaces/prod/workflows/turn%2F"+string(first.TurnID), eval[string](p, `document.querySelector('.meta a[target]').href`))

	// The next message is sent in the same session, to the chosen agent.
	p.do(setSelect("Agent", "clerk"))
	p.write("line one")
	p.key('\r', shift)
	p.write("line two")
	p.until(`document.getElementById('message').value === 'line one\nline two'`)
	p.key('\r')
	p.until(`document.querySelectorAll('.turn.completed').length === 2`)
	second := h.Submitted()[1].Request
	require.Equal(t, first.SessionID, second.SessionID)
	require.Equal(t, agent.TurnRequest{
		TurnID: second.TurnID, SessionID: second.SessionID, Message: "line one\nline two", Agent: "clerk", Channel: "console", OnBusy: agent.OnBusyQueue,
		Context: agent.InvocationContext{Tenant: "default"},
	}, second)

	// The timeline shows the events of the stream.
	p.press("Timeline")
	p.sees("10 in, 5 out")
	p.until(`document.querySelectorAll('.spans .step.model').length === 1`)
	p.until(`document.querySelectorAll('.facts dd .quiet.mono').length === 1`)
	p.click(".facts dd .quiet.mono")
	p.until(`document.querySelector('dialog .code code')?.textContent.includes('line one')`)
	p.key(escape)
	p.until(`!document.querySelector('dialog')`)

	// Opened from the list, the conversation has everything once.
	p.press("New conversation")
	p.sees("What should be done?")
	p.click(".conversations a")
	p.until(`document.querySelectorAll('.turn').length === 2 && document.querySelectorAll('.prose strong').length === 2`)
}

func testStreaming(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "count")
	h.Emit(id, gatewaytest.Status(agent.StatusRunning))
	p.sees("Thinking…")
	h.Emit(id, token("model/1", "# Numbers\n\nOne is a "), token("model/1", "number.\n\nTwo *is* "))
	p.until(`document.querySelector('.prose h1')?.textContent === 'Numbers' && document.querySelector('.prose em')?.textContent === 'is'`)
	p.do(runJS(`document.querySelector('.prose h1').dataset.same = 'yes'`))
	h.Emit(id, token("model/1", "too.\n\n```go\nfunc main() {"))
	p.until(`document.querySelector('.tail figure .lang')?.textContent === 'go' && document.querySelector('.tail code').textContent === 'func main() {'`)
	h.Emit(id, token("model/1", "}\n``"), token("model/1", "`\nEnd"))
	p.until(`document.querySelector('.chunk figure code')?.textContent === 'func main() {}' && document.querySelector('.hljs-keyword')`)
	p.until(`document.querySelector('.prose h1').dataset.same === 'yes'`) // earlier text is not drawn again

	// A reset removes what the model wrote before.
	h.Emit(id, agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 2}, token("model/1", "Better: three."))
	p.until(`document.querySelector('.prose').innerText.trim() === 'Better: three.'`)
	h.Finish(id, agent.TurnCompleted, "Better: three.")
	p.until(`document.querySelector('.turn.completed') && document.querySelector('.prose').innerText.trim() === 'Better: three.'`)
}

func testReload(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "long work")
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "The first half, "))
	p.sees("The first half,")
	p.reload()
	p.sees("The first half,")
	require.Equal(t, "long work", eval[string](p, `document.querySelector('.said p').textContent`))
	h.Emit(id, token("model/1", "and the second."))
	p.sees("The first half, and the second.")
	h.Finish(id, agent.TurnCompleted, "The first half, and the second.")
	p.until(`document.querySelector('.turn.completed')`)
	p.reload()
	p.sees("The first half, and the second.")
	p.until(`document.querySelector('.turn.completed') && document.querySelectorAll('.said').length === 1 && document.querySelectorAll('.prose').length === 1`)

	// A browser that did not start the turn shows it by its address.
	other := b.open(t, h.url, eval[string](p, `'/' + location.hash`))
	other.sees("The first half, and the second.")
	require.Equal(t, "long work", eval[string](other, `document.querySelector('.said p').textContent`))
	require.Len(t, h.Submitted(), 1)
}

func testBrokenConnection(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "go on")
	for i, word := range []string{"one ", "two ", "three"} {
		h.Emit(id, token("model/1", word))
		all := strings.Join([]string{"one ", "two ", "three"}[:i+1], "")
		p.until(`document.querySelector('.prose')?.innerText.trim() === ` + quoted(strings.TrimSpace(all)))
		h.cutStreams(id) // in the middle of the stream
		p.until(`document.querySelector('.working')?.textContent.includes('Connection lost')`)
		if i > 0 { // the first time, the page waits for its own next attempt
			p.do(runJS(`document.dispatchEvent(new Event('turnstone:back'))`))
		}
	}
	h.Finish(id, agent.TurnCompleted, "one two three")
	p.until(`document.querySelector('.turn.completed') && document.querySelector('.prose').innerText.trim() === 'one two three'`)
	require.Len(t, h.Submitted(), 1)
}

func testExpiredEvents(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "old")
	h.Emit(id, token("model/1", "first "), token("model/1", "second "))
	p.sees("first second")
	h.Expire(2)
	p.reload()
	p.sees("Earlier events of this turn are no longer kept.")
	h.Emit(id, token("model/1", "third"))
	p.until(`document.querySelector('.prose')?.innerText.trim() === 'third'`)
	h.Finish(id, agent.TurnCompleted, "first second third")
	p.until(`document.querySelector('.turn.completed')`)
	h.Expire(5)
	p.reload()
	p.until(`document.querySelector('.turn.completed') && document.querySelector('.prose')?.innerText.trim() === 'first second third'`)
}

func testMessagesMeanwhile(t *testing.T, b *browser) {
	h := newServer(t, nil)
	stopped := make(chan agent.CancelRequest, 1)
	h.Cancelled = func(id agent.TurnID, c agent.CancelRequest) error {
		stopped <- c
		h.Finish(id, agent.TurnCancelled, "")
		return nil
	}
	p := b.open(t, h.url, "/")
	p.say("first")
	first := h.firstTurn(t)
	h.Emit(first, gatewaytest.Status(agent.StatusRunning), token("model/1", "Working"))
	p.sees("Working")
	p.say("and then this")
	second := h.nthTurn(t, 2)
	p.sees("Waiting for the turn before it…")
	p.do(setSelect("What a message does while a turn runs", "interrupt"))
	p.say("no, this")
	third := h.nthTurn(t, 3)
	require.Equal(t, agent.OnBusyQueue, h.Submitted()[1].Request.OnBusy)
	require.Equal(t, agent.OnBusyInterrupt, h.Submitted()[2].Request.OnBusy)
	require.Equal(t, h.Submitted()[0].Request.SessionID, h.Submitted()[2].Request.SessionID)

	p.key(escape)
	p.until(`document.querySelector('.turn.cancelled')`)
	require.Equal(t, "stopped in the console", (<-stopped).Reason)
	h.Say(second, "Second.")
	h.Say(third, "Third.")
	p.until(`document.querySelectorAll('.turn.completed').length === 2`)
	p.until(`[...document.querySelectorAll('.prose')].map((e) => e.innerText.trim()).join() === 'Working,Second.,Third.'`)
}

func testFailures(t *testing.T, b *browser) {
	h := newServer(t, nil)
	refusals := make(chan error, 1)
	refusals <- &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Second, Err: errors.New("the session has 20 messages waiting")}
	h.Refuse = func(agent.Envelope) error {
		select {
		case err := <-refusals:
			return err
		default:
			return nil
		}
	}
	p := b.open(t, h.url, "/")
	p.say("too much")
	p.sees("Not sent: Too much at once: the session has 20 messages waiting")
	p.press("Try again")
	id := h.firstTurn(t)
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "I was about"))
	p.sees("I was about")
	h.Finish(id, agent.TurnFailed, "")
	p.sees("The turn failed: the provider said no")
	p.sees("model_error")
	p.sees("I was about") // the text before the failure stays
	p.press("Try again")
	second := h.nthTurn(t, 2)
	require.NotEqual(t, id, second)
	h.Say(second, "Now it works.")
	p.sees("Now it works.")
	p.until(`document.querySelectorAll('.said').length === 2`)

	// Unknown turns and sessions are errors.
	p.visit("/#/chat/unknown/none")
	p.reload()
	p.sees("there is no turn")
	p.visit("/#/chat/no-such-session")
	p.reload()
	p.sees("There is no conversation no-such-session")
}

// startTurn opens the console of a new server and sends a message.
func startTurn(t *testing.T, b *browser, message string) (*server, *tab, agent.TurnID) {
	t.Helper()
	h := newServer(t, nil)
	p := b.open(t, h.url, "/")
	p.say(message)
	return h, p, h.firstTurn(t)
}

// firstTurn waits for the first turn.
func (h *server) firstTurn(t *testing.T) agent.TurnID { return h.nthTurn(t, 1) }

// nthTurn waits for the nth turn.
func (h *server) nthTurn(t *testing.T, n int) agent.TurnID {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.Submitted()) >= n }, testTimeout, 5*time.Millisecond)
	return h.Submitted()[n-1].Request.TurnID
}
