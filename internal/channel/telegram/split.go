package telegram

import (
	"strings"
	"unicode"

	"github.com/go-telegram/bot/models"
)

// Telegram's bounds of a message.
const (
	maxMessage  = 4096 // UTF-16 units
	maxEntities = 100  // further ones are ignored
	maxCluster  = 64   // bytes of what is looked at as one character
)

// split cuts a piece into messages of at most most units, at the end of a paragraph, else of a line, else of a sentence, else between words.
// White space around a message is left out, as Telegram does. A message that says nothing is none.
func split(p piece, most int) []piece {
	var parts []piece
	at, unit := 0, 0 // where the rest begins, in bytes and in units
	for at < len(p.text) {
		rest := p.text[at:]
		blank := len(rest) - len(strings.TrimLeftFunc(rest, ignored))
		at, unit = at+blank, unit+units(rest[:blank])
		if rest = rest[blank:]; rest == "" {
			break
		}
		size := cut(rest, most)
		text := strings.TrimRightFunc(rest[:size], ignored)
		parts = append(parts, piece{text: text, entities: between(p.entities, unit, unit+units(text))})
		at, unit = at+size, unit+units(rest[:size])
	}
	return parts
}

// ignored are characters that make no message by themselves.
func ignored(r rune) bool {
	const fillers = "\u3164\u2800" // letters by name, blank to the eye
	return unicode.IsSpace(r) || strings.ContainsRune(fillers, r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}

// cut says how many bytes of text go into the first message; at least one character.
func cut(text string, most int) int {
	n, end := 0, len(text)
	for i, r := range text {
		if n += unitsOf(r); n > most {
			end = i
			break
		}
	}
	if end == len(text) {
		return end
	}
	head := text[:end]
	floor := end / 2 // a message that is less than half full is no good place
	for _, sign := range []string{"\n\n", "\n", ". ", " "} {
		if at := strings.LastIndex(head, sign); at >= floor && strings.TrimFunc(head[:at], ignored) != "" {
			return at + len(sign)
		}
	}
	// No good place: at least no character is torn from what belongs to it.
	for back := end; back > max(0, end-maxCluster); {
		r := firstRune(text[back:])
		before := lastRune(text[:back])
		if !joins(r) && before != '\u200d' {
			return back
		}
		back -= len(string(before))
	}
	return end
}

// joins reports whether a character belongs to the one before it.
func joins(r rune) bool {
	return r == '\u200d' || unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc, unicode.Variation_Selector) || (r >= 0x1f3fb && r <= 0x1f3ff)
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

func lastRune(s string) rune {
	r := []rune(s[max(0, len(s)-4):])
	return r[len(r)-1]
}

// between are the entities on the units from begin to end, moved and cut to fit.
func between(entities []models.MessageEntity, begin, end int) []models.MessageEntity {
	var kept []models.MessageEntity
	for _, e := range entities {
		from, to := max(e.Offset, begin), min(e.Offset+e.Length, end)
		if from >= to || len(kept) == maxEntities {
			continue
		}
		e.Offset, e.Length = from-begin, to-from
		kept = append(kept, e)
	}
	return kept
}
