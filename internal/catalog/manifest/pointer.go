package manifest

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// pointerTokens returns the tokens of a JSON Pointer that is written as a URL fragment, such as /$defs/a~1b.
func pointerTokens(fragment string) []string {
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	return slices.Collect(jsontext.Pointer(fragment).Tokens())
}

// appendToken appends a token to a JSON Pointer that is written as a URL fragment.
func appendToken(fragment, token string) string {
	escaped := jsontext.Pointer("").AppendToken(token)
	return fragment + "/" + url.PathEscape(string(escaped[1:]))
}

// findTokens returns the node at the tokens of a JSON Pointer, nil if there is none, and its path.
func (n *node) findTokens(tokens []string) (found *node, path string) {
	found = n
	for _, token := range tokens {
		if found == nil || found.form != formArray {
			found, path = found.member(token), child(path, token)
			continue
		}
		path += "[" + token + "]"
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(found.items) {
			found = nil
			continue
		}
		found = found.items[i]
	}
	return found, path
}
