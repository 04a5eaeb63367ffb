package logs

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// shortestSecret is the length in bytes below which a secret is not looked for: it would be found by chance.
	shortestSecret = 6
	// shortestWord is the same for secrets of one kind of letters alone. Who takes "postgres" for a password does not lose that word.
	shortestWord = 12
	maxSecret    = 16 << 10 // bytes; of a longer one the first are looked for
	maxSecrets   = 1_000
)

// Masker takes secrets out of a text and returns it; egress.Masker is one, which knows how JSON, URLs, HTML and XML write characters.
type Masker interface{ Mask(text []byte) []byte }

// known are the secrets that the process knows by their values. It does not change.
type known struct {
	secrets []string
	forms   []string
	masker  Masker
	byPair  map[uint16][]string // forms by their first two bytes
	pairs   [1 << 10]uint64     // which of these there are, a bit each: most of a text is told by it
	spaces  bool                // one holds a space, which a URL writes as +
	numbers bool                // one may be written as a number
	longest int
}

// findable reports whether a secret can be told from words that stand in a text by chance.
func findable(secret string) bool {
	if len(secret) < shortestSecret {
		return false
	}
	lower, upper := false, false
	for i := range len(secret) {
		switch c := secret[i]; {
		case 'a' <= c && c <= 'z':
			lower = true
		case 'A' <= c && c <= 'Z':
			upper = true
		default:
			return true
		}
	}
	return lower && upper || len(secret) >= shortestWord
}

func newKnown(secrets []string, masker func(secrets ...string) Masker) *known {
	k := &known{byPair: map[uint16][]string{}}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) > maxSecret {
			s = s[:maxSecret]
		}
		if !findable(s) || slices.Contains(k.secrets, s) || len(k.secrets) == maxSecrets {
			continue
		}
		k.secrets = append(k.secrets, s)
		k.forms = append(k.forms, forms(s)...)
		k.spaces = k.spaces || strings.Contains(s, " ")
		k.numbers = k.numbers || strings.Trim(s, "0123456789+-.eEi") == ""
	}
	slices.SortStableFunc(k.forms, func(a, b string) int { return len(b) - len(a) }) // the longest of several is taken
	for _, f := range k.forms {
		pair := uint16(f[0])<<8 | uint16(f[1])
		k.byPair[pair] = append(k.byPair[pair], f)
		k.pairs[pair>>6] |= 1 << (pair & 63)
		k.longest = max(k.longest, len(f))
	}
	if k.masker = plainMasker(k.forms); masker != nil {
		k.masker = masker(k.forms...)
	}
	return k
}

// forms are the ways of writing a secret that are not a matter of single characters: as it is, in base64 wherever it stands in what is
// encoded, and in hex.
func forms(secret string) []string {
	all := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for before := range 3 {
		text := slices.Concat(make([]byte, before), []byte(secret))
		// The characters that bits of a neighbour get into are left out.
		first, last := (before*8+5)/6, len(text)*8/6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if f := e.EncodeToString(text)[first:last]; !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// mask takes the secrets out of a text.
func (k *known) mask(text string) string {
	if !k.within(text) {
		return text
	}
	out := k.masker.Mask([]byte(text))
	if string(out) == text {
		return text
	}
	return string(out)
}

// within reports whether a secret may be in a text: it is there as it is, or something is written in a way that only the masker reads.
func (k *known) within(text string) bool {
	if len(k.forms) == 0 {
		return false
	}
	for i := range len(text) {
		switch text[i] {
		case '\\', '&':
			return true
		case '%':
			if i+2 < len(text) && isAlnum(text[i+1]) && isAlnum(text[i+2]) {
				return true
			}
		case '+':
			if k.spaces {
				return true
			}
		}
		if i+1 == len(text) {
			break
		}
		pair := uint16(text[i])<<8 | uint16(text[i+1])
		if k.pairs[pair>>6]&(1<<(pair&63)) == 0 {
			continue
		}
		for _, f := range k.byPair[pair] {
			if strings.HasPrefix(text[i:], f) {
				return true
			}
		}
	}
	return false
}

// plainMasker finds secrets as they are.
type plainMasker []string

func (m plainMasker) Mask(text []byte) []byte {
	pairs := make([]string, 0, 2*len(m))
	for _, s := range m {
		pairs = append(pairs, s, redacted)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
}
