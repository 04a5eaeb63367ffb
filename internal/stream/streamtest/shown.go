package streamtest

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Shown joins the tokens that a reader of the events shows in the end: those that no reset voids.
func Shown(events []agent.Event) string {
	var text strings.Builder
	for i := range events {
		if events[i].Type == agent.EventToken && !void(events, i) {
			text.WriteString(events[i].Text)
		}
	}
	return text.String()
}

// void reports whether a later reset of its producer takes an event back.
func void(events []agent.Event, i int) bool {
	for _, r := range events[i:] {
		if r.Type == agent.EventReset && r.Producer == events[i].Meta.Producer && events[i].Meta.EventIndex >= r.FromIndex {
			return true
		}
	}
	return false
}
