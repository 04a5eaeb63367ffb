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
	maxCluster  = 64   // bytes of one visible character
)

// split cuts a piece into messages of at most maxUnits: at the end of a paragraph, else of a line, else of a sentence, else between words. It
// leaves out white space around messages, as Telegram does, and messages without visible characters.
func split(p piece, maxUnits int) []piece {
	var parts []piece
	at, unit := 0, 0 // where the rest begins, in bytes and in units
	for at < len(p.text) {
		rest := p.text[at:]
		blank := len(rest) - len(strings.TrimLeftFunc(rest, isBlank))
		at, unit = at+blank, unit+units(rest[:blank])
		if rest = rest[blank:]; rest == "" {
			break
		}
		size := splitPoint(rest, maxUnits)
		text := strings.TrimRightFunc(rest[:size], isBlank)
		parts = append(parts, piece{text: text, entities: entitiesWithin(p.entities, unit, unit+units(text))})
		at, unit = at+size, unit+units(rest[:size])
	}
	return parts
}

// isBlank reports whether a character is invisible, so that a message of such characters would be empty.
func isBlank(r rune) bool {
	const fillers = "\u3164\u2800" // letters by name, blank to the eye
	return unicode.IsSpace(r) || strings.ContainsRune(fillers, r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}

// splitPoint returns how many bytes of text go into the first message: at least one character.
func splitPoint(text string, maxUnits int) int {
	n, end := 0, len(text)
	for i, r := range text {
		if n += unitsOf(r); n > maxUnits {
			end = i
			break
		}
	}
	if end == len(text) {
		return end
	}
	head := text[:end]
	floor := end / 2 // messages should be at least half full
	for _, sign := range []string{"\n\n", "\n", ". ", " "} {
		if at := strings.LastIndex(head, sign); at >= floor && strings.TrimFunc(head[:at], isBlank) != "" {
			return at + len(sign)
		}
	}
	// No such place: at least keep combining characters together.
	for back := end; back > max(0, end-maxCluster); {
		r := firstRune(text[back:])
		before := lastRune(text[:back])
		if !isCombining(r) && before != '\u200d' {
			return back
		}
		back -= len(string(before))
	}
	return end
}

// isCombining reports whether a character belongs to the one before it.
func isCombining(r rune) bool {
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

// entitiesWithin returns the entities on the units from begin to end, moved and cut to fit.
func entitiesWithin(entities []models.MessageEntity, begin, end int) []models.MessageEntity {
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
