package pii

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"unicode/utf8"
)

// shown is how many characters a mask leaves.
const shown = 4

const masked = "****"

// replacement returns the text that replaces a value, in LangChain's forms.
func (r *Rule) replacement(value string) string {
	switch r.strategy {
	case StrategyMask:
		return maskValue(r.kind, value)
	case StrategyHash:
		sum := sha256.Sum256([]byte(value))
		return r.hashLabel(sum[:])
	case StrategyBlock:
		return ""
	default:
		return "[REDACTED_" + strings.ToUpper(r.kind) + "]"
	}
}

// hashLabel returns a label with 8 hex digits of a SHA-256. It does not protect values that can be guessed.
func (r *Rule) hashLabel(sum []byte) string {
	return "<" + r.kind + "_hash:" + hex.EncodeToString(sum)[:8] + ">"
}

func maskValue(kind, value string) string {
	switch kind {
	case TypeEmail:
		local, domain, ok := strings.Cut(value, "@")
		if !ok || strings.Contains(domain, "@") {
			return masked
		}
		if dot := strings.LastIndexByte(domain, '.'); dot >= 0 {
			return local + "@" + masked + domain[dot:]
		}
		return local + "@" + masked
	case TypeCreditCard:
		return maskCard(value)
	case TypeIP:
		if octets := strings.Split(value, "."); len(octets) == 4 && !strings.Contains(value, ":") {
			return "*.*.*." + octets[3]
		}
		return masked
	case TypeMACAddress:
		if strings.Contains(value, ".") {
			return "****.****.**" + lastRunes(value, 2)
		}
		sep := "-"
		if strings.Contains(value, ":") {
			sep = ":"
		}
		return strings.Repeat("**"+sep, 5) + lastRunes(value, 2)
	case TypeURL:
		return "[MASKED_URL]"
	default:
		return maskOther(value)
	}
}

func maskCard(value string) string {
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, value)
	if len(digits) <= shown {
		return masked
	}
	last := digits[len(digits)-shown:]
	for _, sep := range []string{"-", " "} {
		if strings.Contains(value, sep) {
			return strings.Repeat(masked+sep, 3) + last
		}
	}
	return strings.Repeat(masked, 3) + last
}

func maskOther(value string) string {
	if utf8.RuneCountInString(value) <= shown {
		return masked
	}
	return masked + lastRunes(value, shown)
}

// lastRunes returns the last n characters of s.
func lastRunes(s string, n int) string {
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, w := utf8.DecodeLastRuneInString(s[:at])
		at -= w
	}
	return s[at:]
}

// longValue is a value beyond its type's bound. It keeps only what the replacement needs.
type longValue struct {
	rule *Rule
	rest overflow
	sum  hash.Hash
	end  string // the last bytes, enough for a mask
}

func (r *Rule) newLongValue(v value) *longValue {
	return &longValue{rule: r, rest: v.rest, sum: sha256.New()}
}

func (l *longValue) add(text string) {
	l.sum.Write([]byte(text))
	l.end += text[max(0, len(text)-shown*utf8.UTFMax):]
	l.end = strings.Clone(l.end[max(0, len(l.end)-shown*utf8.UTFMax):])
}

// replacement returns the text that replaces the value. A mask shows the last characters, whatever the type.
func (l *longValue) replacement() string {
	switch l.rule.strategy {
	case StrategyHash:
		return l.rule.hashLabel(l.sum.Sum(nil))
	case StrategyMask:
		if l.rule.kind == TypeURL {
			return maskValue(TypeURL, "")
		}
		return maskOther(l.end)
	default:
		return l.rule.replacement("")
	}
}
