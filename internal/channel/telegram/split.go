package telegram

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
)

// Bounds of a message.
const (
	maxMessage  = 4096 // UTF-16 units
	maxEntities = 100  // Telegram ignores further ones
	maxCluster  = 64   // bytes of combining characters that are kept together
)

// split cuts a piece into messages of at most maxUnits. It cuts at the end of a paragraph if possible, then of a line, of a sentence, of a word. It
// drops white space around messages, as Telegram does, and messages without visible characters.
func split(p piece, maxUnits int) []piece {
	var parts []piece
	text, offset := p.text, 0 // text begins at this offset in p, in units
	for {
		trimmed := strings.TrimLeftFunc(text, isBlank)
		offset += units(text[:len(text)-len(trimmed)])
		if trimmed == "" {
			return parts
		}
		size := splitPoint(trimmed, maxUnits)
		message := strings.TrimRightFunc(trimmed[:size], isBlank)
		parts = append(parts, piece{text: message, entities: entitiesWithin(p.entities, offset, offset+units(message))})
		text, offset = trimmed[size:], offset+units(trimmed[:size])
	}
}

// isBlank reports whether a character is invisible. A message of such characters would be empty.
func isBlank(r rune) bool {
	const fillers = "\u3164\u2800" // Unicode does not class them as space, but they are drawn as such
	return unicode.IsSpace(r) || strings.ContainsRune(fillers, r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}

// splitPoint returns how many bytes of text go into the first message. They are at least one character.
func splitPoint(text string, maxUnits int) int {
	n, end := 0, len(text)
	for i, r := range text {
		if n += utf16.RuneLen(r); n > maxUnits {
			end = i
			break
		}
	}
	if end == len(text) {
		return end
	}
	head := text[:end]
	minimum := end / 2 // messages should be at least half full
	for _, separator := range []string{"\n\n", "\n", ". ", " "} {
		if i := strings.LastIndex(head, separator); i >= minimum && strings.TrimFunc(head[:i], isBlank) != "" {
			return i + len(separator)
		}
	}
	// There is no separator, so cut where no combining character follows.
	for i := end; i > max(0, end-maxCluster); {
		next, _ := utf8.DecodeRuneInString(text[i:])
		previous, size := utf8.DecodeLastRuneInString(text[:i])
		if !isCombining(next) && previous != zeroWidthJoiner {
			return i
		}
		i -= size
	}
	return end
}

// zeroWidthJoiner joins the two characters around it.
const zeroWidthJoiner = '\u200d'

// isCombining reports whether a character belongs to the one before it.
func isCombining(r rune) bool {
	isSkinTone := r >= 0x1f3fb && r <= 0x1f3ff
	return isSkinTone || r == zeroWidthJoiner || unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc, unicode.Variation_Selector)
}

// entitiesWithin returns the parts of the entities between two units. Their offsets count from begin.
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
