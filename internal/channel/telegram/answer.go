package telegram

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of an answer.
const (
	maxGrowingBytes = 64 << 10 // of an answer whose turn has not ended
	maxParts        = 16       // messages of an answer
	maxEndingUnits  = 90       // of a text below the last message
	maxMessageBody  = maxMessage - 100
)

// answer is the text that a turn has shown so far. It has the tokens of one producer: the latest.
type answer struct {
	producer string
	text     string
	tokens   []tokenStart
	waiting  bool         // whether the turn waits for a person
	terminal *agent.Event // nil until the turn has ended
}

// tokenStart is where the text of a token event begins. A reset cuts the text there.
type tokenStart struct {
	eventIndex int64
	offset     int // in bytes
}

// addEvent updates the answer with the turn's next event.
func (a *answer) addEvent(e *agent.Event) {
	switch e.Type {
	case agent.EventToken:
		if e.Text == "" {
			return
		}
		if e.Meta.Producer != a.producer {
			a.producer, a.text, a.tokens = e.Meta.Producer, "", nil
		}
		if len(a.text) >= maxGrowingBytes {
			return // the last edit shows the turn's output
		}
		a.tokens = append(a.tokens, tokenStart{e.Meta.EventIndex, len(a.text)})
		a.text += e.Text
	case agent.EventReset:
		if e.Producer != a.producer {
			return
		}
		for i, t := range a.tokens {
			if t.eventIndex >= e.FromIndex {
				a.text, a.tokens = a.text[:t.offset], a.tokens[:i]
				return
			}
		}
	case agent.EventStatus:
		a.waiting = e.Status == agent.StatusWaiting
		if e.Terminal() {
			a.terminal = e
		}
	default:
	}
}

// progressMessages returns the messages that show the answer so far. If a reset has removed all text of messages that were sent, it returns an
// ellipsis, because a message cannot be empty.
func (a *answer) progressMessages(sent int) []piece {
	parts := split(render(a.text), maxMessage)
	if len(parts) == 0 && sent > 0 {
		return []piece{plainText("…")}
	}
	return parts[:min(len(parts), maxParts)]
}

// finalMessages returns the messages that show how the turn ended. They do not name the cause of a failure, but the turn's id, by which the operator
// finds it.
func (a *answer) finalMessages(id agent.TurnID) []piece {
	e := a.terminal
	out := e.Result
	switch {
	case e.Status == agent.StatusFailed, out == nil && e.Status == agent.StatusCompleted:
		return []piece{plainText(fmt.Sprintf("Sorry, that did not work. (turn %s)", clipUnits(string(id), 128)))}
	case e.Status == agent.StatusCancelled:
		text := a.text
		if out != nil && out.Output != "" {
			text = out.Output
		}
		if strings.TrimSpace(text) == agent.NormalizeOutput(nil) {
			text = ""
		}
		return messagesWithEnding(text, "Stopped.")
	}
	parts := split(render(out.Output), maxMessage)
	switch cut := out.StopReason.CutShort(); {
	case len(parts) == 0:
		return []piece{plainText("(The answer has no text.)")}
	case cut != "":
		return messagesWithEnding(out.Output, cut)
	case len(parts) > maxParts && out.ResultRef != "":
		return messagesWithEnding(out.Output, "The answer goes on: "+out.ResultRef)
	case len(parts) > maxParts:
		return messagesWithEnding(out.Output, "The answer goes on.")
	default:
		return parts
	}
}

// messagesWithEnding returns the first messages of a Markdown text, with ending below the last.
func messagesWithEnding(markdown, ending string) []piece {
	parts := split(render(markdown), maxMessageBody)
	if len(parts) == 0 {
		return []piece{plainText(ending)}
	}
	parts = parts[:min(len(parts), maxParts)]
	last := &parts[len(parts)-1]
	*last = last.withText(clipUnits(ending, maxEndingUnits))
	return parts
}
