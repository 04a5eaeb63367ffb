package schema

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of an error.
const (
	maxFaults  = 5
	maxError   = 1 << 10 // bytes, including Field
	maxPath    = 200     // bytes
	maxMessage = 320     // bytes
	maxName    = 64      // bytes of a name in a path
	maxEcho    = 100     // runes of a quoted value
)

// Fault is a fault of a document.
type Fault struct {
	Tokens  []string // the path of the value
	Name    string   // of a missing or unknown member of the value; empty if the fault is about the value itself
	Unknown bool     // the member Name is not allowed

	message         string
	lazyMessage     func() string // replaces message; most faults are not reported
	isDiscriminator bool          // the fault suggests that another alternative was meant
}

// Message returns the description of the fault.
func (f *Fault) Message() string {
	if f.lazyMessage != nil {
		return clip.Bytes(f.lazyMessage(), maxMessage)
	}
	return clip.Bytes(f.message, maxMessage)
}

// fullTokens returns the path of the member or value that the fault is about.
func (f *Fault) fullTokens() []string {
	if f.Name == "" {
		return f.Tokens
	}
	return append(slices.Clone(f.Tokens), f.Name)
}

// summarize returns the field and the message of an error for faults. The message has the first faults, with the paths of all but the first.
func summarize(path string, faults []Fault) (field, message string) {
	faults = slices.Clone(faults)
	for i := range faults {
		faults[i].Tokens, faults[i].Name = faults[i].fullTokens(), ""
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return compareTokens(a.Tokens, b.Tokens) })
	var paths, messages []string
	omitted := 0
	for i := range faults {
		sameField := i > 0 && slices.Equal(faults[i].Tokens, faults[i-1].Tokens)
		switch last := len(messages) - 1; {
		case sameField && omitted > 0:
		case sameField: // one message per field; the choice must not depend on the validator's random order
			messages[last] = min(messages[last], faults[i].Message())
		case len(messages) == maxFaults:
			omitted++
		default:
			paths, messages = append(paths, formatPath(path, faults[i].Tokens)), append(messages, faults[i].Message())
		}
	}
	message = messages[0]
	size := len(paths[0]) + len(message)
	for i, next := range messages[1:] {
		more := "; " + next
		if paths[i+1] != "" {
			more = "; " + paths[i+1] + ": " + next
		}
		size += len(more)
		if size > maxError-32 { // leaves room for the number of omitted faults
			omitted += len(messages) - 1 - i
			break
		}
		message += more
	}
	if omitted > 0 {
		message += fmt.Sprintf("; and %d more", omitted)
	}
	return paths[0], message
}

// Problems returns up to maxProblems faults in a validator's error as lines with a path and a message: body.items[0].id: is required.
func Problems(err *jsonschema.ValidationError, path string, value any, maxProblems int) []string {
	faults := explain(err, nil, value, &Wording{})
	slices.SortStableFunc(faults, func(a, b Fault) int { return compareTokens(a.fullTokens(), b.fullTokens()) })
	var lines []string
	for i := range faults[:min(maxProblems, len(faults))] {
		lines = append(lines, formatPath(path, faults[i].fullTokens())+": "+faults[i].Message())
	}
	return lines
}

// compareTokens orders paths, with indexes by value.
func compareTokens(a, b []string) int {
	return slices.CompareFunc(a, b, func(a, b string) int {
		i, errI := strconv.Atoi(a)
		j, errJ := strconv.Atoi(b)
		if errI == nil && errJ == nil && i != j {
			return i - j
		}
		return strings.Compare(a, b)
	})
}

// formatPath returns path followed by tokens, such as args.filters[0].op. It quotes names with special characters.
func formatPath(path string, tokens []string) string {
	var b strings.Builder
	b.WriteString(path)
	for _, token := range tokens {
		switch {
		case b.Len() > maxPath:
			return b.String() + "…"
		case isIndex(token):
			b.WriteString("[" + token + "]")
		case !isPlainName(token):
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

// isIndex reports whether a token looks like an index.
func isIndex(token string) bool {
	return token != "" && len(token) < 10 && strings.Trim(token, "0123456789") == ""
}

// isPlainName reports whether a name needs no quotes in a path.
func isPlainName(token string) bool {
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

// tokensOf returns the tokens of a URL such as turnstone:///schema#/properties/a~1b, nil for a URL of another document.
func tokensOf(schemaURL string) []string {
	pointer, ok := strings.CutPrefix(schemaURL, address+"#/")
	if !ok {
		return nil
	}
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		if decoded, err := url.PathUnescape(token); err == nil {
			token = decoded
		}
		tokens[i] = jsontext.Pointer("/" + token).LastToken()
	}
	return tokens
}
