package manifest

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// pointerTokens returns the tokens of a JSON Pointer in its form as a URL fragment, such as /$defs/a~1b.
func pointerTokens(fragment string) []string {
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	return slices.Collect(jsontext.Pointer(fragment).Tokens())
}

// appendToken returns a URL fragment with one more token.
func appendToken(fragment, token string) string {
	escaped := jsontext.Pointer("").AppendToken(token)
	return fragment + "/" + url.PathEscape(string(escaped[1:]))
}

// route returns the node at the validator's tokens, nil if there is none, and their path.
func (n *node) route(tokens []string) (last *node, way string) {
	last = n
	for _, token := range tokens {
		var next *node
		if last != nil && last.form == formArray {
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(last.items) {
				next = last.items[i]
			}
			way += "[" + token + "]"
		} else {
			next = last.member(token)
			way = child(way, token)
		}
		last = next
	}
	return last, way
}
