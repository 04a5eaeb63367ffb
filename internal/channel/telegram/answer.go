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

// answer is what a turn's events say so far: the text of whoever of the turn spoke last.
type answer struct {
	producer string
	text     string
	pieces   []mark
	waiting  bool // for a person
	terminal *agent.Event
}

// mark remembers where in the text an event begins, so that a reset can cut there.
type mark struct {
	index int64
	start int
}

// take takes the next event.
func (a *answer) take(e *agent.Event) {
	switch e.Type {
	case agent.EventToken:
		if e.Text == "" {
			return
		}
		if e.Meta.Producer != a.producer {
			a.producer, a.text, a.pieces = e.Meta.Producer, "", nil
		}
		if len(a.text) >= maxShown {
			return // the last edit has what the turn's output has
		}
		a.pieces = append(a.pieces, mark{e.Meta.EventIndex, len(a.text)})
		a.text += e.Text
	case agent.EventReset:
		if e.Producer != a.producer {
			return
		}
		for i, at := range a.pieces {
			if at.index >= e.FromIndex {
				a.text, a.pieces = a.text[:at.start], a.pieces[:i]
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

// parts are the messages that show the answer as it is. shown is how many messages there are already: where all text was taken back, something
// must stand there.
func (a *answer) parts(shown int) []piece {
	parts := split(render(a.text), maxMessage)
	if len(parts) == 0 && shown > 0 {
		return []piece{plain("…")}
	}
	return parts[:min(len(parts), maxParts)]
}

// final are the messages that show how the turn ended. What went wrong is for the operator: the person gets the turn's name.
func (a *answer) final(id agent.TurnID) []piece {
	e := a.terminal
	out := e.Result
	switch {
	case e.Status == agent.StatusFailed, out == nil && e.Status == agent.StatusCompleted:
		return []piece{plain(fmt.Sprintf("Sorry, that did not work. (turn %s)", clipUnits(string(id), 128)))}
	case e.Status == agent.StatusCancelled:
		text := a.text
		if out != nil && out.Output != "" {
			text = out.Output
		}
		if strings.TrimSpace(text) == agent.NormalizeOutput(nil) {
			text = ""
		}
		return ended(split(render(text), maxMessage-100), "Stopped.")
	}
	parts := split(render(out.Output), maxMessage)
	switch cut := out.StopReason.CutShort(); {
	case len(parts) == 0:
		return []piece{plain("(The answer has no text.)")}
	case cut != "":
		return ended(split(render(out.Output), maxMessage-100), cut)
	case len(parts) > maxParts && out.ResultRef != "":
		return ended(split(render(out.Output), maxMessage-100)[:maxParts], "The answer goes on: "+out.ResultRef)
	case len(parts) > maxParts:
		return ended(split(render(out.Output), maxMessage-100)[:maxParts], "The answer goes on.")
	default:
		return parts
	}
}

// ended adds words behind messages that have room for them.
func ended(parts []piece, words string) []piece {
	if len(parts) == 0 {
		return []piece{plain(words)}
	}
	parts = parts[:min(len(parts), maxParts)]
	last := &parts[len(parts)-1]
	*last = last.with(clipUnits(words, 90))
	return parts
}
