package telegram

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what an answer shows.
const (
	maxShown = 64 << 10 // bytes of a growing answer
	maxParts = 16       // messages of an answer
)

// answer is the text of a turn so far: that of the producer which wrote last.
type answer struct {
	producer string
	text     string
	pieces   []textStart
	waiting  bool         // the turn waits for a person
	terminal *agent.Event // nil while the turn goes on
}

// textStart is where in the text an event begins, so that a reset can cut there.
type textStart struct {
	index int64
	start int // in bytes
}

// addEvent adds the next event.
func (a *answer) addEvent(e *agent.Event) {
	switch e.Type {
	case agent.EventToken:
		if e.Text == "" {
			return
		}
		if e.Meta.Producer != a.producer {
			a.producer, a.text, a.pieces = e.Meta.Producer, "", nil
		}
		if len(a.text) >= maxShown {
			return // the last edit shows the turn's output
		}
		a.pieces = append(a.pieces, textStart{e.Meta.EventIndex, len(a.text)})
		a.text += e.Text
	case agent.EventReset:
		if e.Producer != a.producer {
			return
		}
		for i, p := range a.pieces {
			if p.index >= e.FromIndex {
				a.text, a.pieces = a.text[:p.start], a.pieces[:i]
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

// growing returns the messages that show the answer so far. If all text was taken back after messages were shown, it returns an ellipsis: a message
// cannot be empty.
func (a *answer) growing(shown int) []piece {
	parts := split(render(a.text), maxMessage)
	if len(parts) == 0 && shown > 0 {
		return []piece{plainText("…")}
	}
	return parts[:min(len(parts), maxParts)]
}

// final returns the messages that show how the turn ended. The cause of a failure is for the operator; the person gets the turn's id.
func (a *answer) final(id agent.TurnID) []piece {
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
		return withEnding(split(render(text), maxMessage-100), "Stopped.")
	}
	parts := split(render(out.Output), maxMessage)
	switch cut := out.StopReason.CutShort(); {
	case len(parts) == 0:
		return []piece{plainText("(The answer has no text.)")}
	case cut != "":
		return withEnding(split(render(out.Output), maxMessage-100), cut)
	case len(parts) > maxParts && out.ResultRef != "":
		return withEnding(split(render(out.Output), maxMessage-100)[:maxParts], "The answer goes on: "+out.ResultRef)
	case len(parts) > maxParts:
		return withEnding(split(render(out.Output), maxMessage-100)[:maxParts], "The answer goes on.")
	default:
		return parts
	}
}

// withEnding adds a text below the last message. The messages have room for it.
func withEnding(parts []piece, text string) []piece {
	if len(parts) == 0 {
		return []piece{plainText(text)}
	}
	parts = parts[:min(len(parts), maxParts)]
	last := &parts[len(parts)-1]
	*last = last.withText(clipUnits(text, 90))
	return parts
}
