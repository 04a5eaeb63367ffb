package schema

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of an error.
const (
	maxFaults  = 5
	maxError   = 1 << 10 // bytes, Field included
	maxPlace   = 200     // bytes
	maxMessage = 320     // bytes
	maxName    = 64      // bytes of a name in a place
	maxEcho    = 100     // runes of the document that an error repeats
)

// fault is one thing that is wrong with a document.
type fault struct {
	tokens  []string // the way to the value
	name    string   // of a member that is missing or should not be there; empty: the value itself
	message string
	say     func() string // instead of message: there may be many faults, and few are told
	other   bool          // the value is that of a discriminator: another alternative was meant
}

func (f *fault) way() []string {
	if f.name == "" {
		return f.tokens
	}
	return append(slices.Clone(f.tokens), f.name)
}

func (f *fault) text() string {
	if f.say != nil {
		return clip.Bytes(f.say(), maxMessage)
	}
	return clip.Bytes(f.message, maxMessage)
}

// sentence makes the field and the words of an error out of faults: those of the first, and with their places those of some more.
func sentence(path string, faults []fault) (field, words string) {
	faults = slices.Clone(faults)
	for i := range faults {
		faults[i].tokens, faults[i].name = faults[i].way(), ""
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return compare(a.tokens, b.tokens) })
	var places, said []string
	left := 0
	for i := range faults {
		same := i > 0 && slices.Equal(faults[i].tokens, faults[i-1].tokens)
		switch n := len(said) - 1; {
		case same && left > 0:
		case same: // of several things that are wrong with a field one will do, whatever the order in which they were found
			said[n] = min(said[n], faults[i].text())
		case len(said) == maxFaults:
			left++
		default:
			places, said = append(places, place(path, faults[i].tokens)), append(said, faults[i].text())
		}
	}
	words = said[0]
	size := len(places[0]) + len(words)
	for i, message := range said[1:] {
		more := "; " + message
		if at := places[i+1]; at != "" {
			more = "; " + at + ": " + message
		}
		if size += len(more); size > maxError-32 { // what is left is for what follows
			left += len(said) - 1 - i
			break
		}
		words += more
	}
	if left > 0 {
		words += fmt.Sprintf("; and %d more", left)
	}
	return places[0], words
}

// compare orders ways by their tokens, numbers by value.
func compare(a, b []string) int {
	return slices.CompareFunc(a, b, func(a, b string) int {
		i, errI := strconv.Atoi(a)
		j, errJ := strconv.Atoi(b)
		if errI == nil && errJ == nil && i != j {
			return i - j
		}
		return strings.Compare(a, b)
	})
}

// place writes a way as a path: args.filters[0].op. A name that is no plain one stands in quotes.
func place(path string, tokens []string) string {
	var b strings.Builder
	b.WriteString(path)
	for _, token := range tokens {
		switch {
		case b.Len() > maxPlace:
			return b.String() + "…"
		case isIndex(token):
			b.WriteString("[" + token + "]")
		case !isPlain(token):
			fmt.Fprintf(&b, "[%q]", clip.Bytes(token, maxName))
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(clip.Bytes(token, maxName))
		}
	}
	return b.String()
}

// isIndex: whether the container is an array is not known here; a name of digits reads well enough as an index.
func isIndex(token string) bool {
	return token != "" && len(token) < 10 && strings.Trim(token, "0123456789") == ""
}

func isPlain(token string) bool {
	if token == "" {
		return false
	}
	for _, r := range token {
		if r <= ' ' || r == utf8.RuneError || r == 0x7f || strings.ContainsRune(`."[]`, r) {
			return false
		}
	}
	return true
}

// tokensOf takes an address of the library apart: turnstone:///schema#/properties/a~1b. Other documents' have none.
func tokensOf(at string) []string {
	pointer, ok := strings.CutPrefix(at, address+"#/")
	if !ok {
		return nil
	}
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		if decoded, err := url.PathUnescape(token); err == nil {
			token = decoded
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens
}
