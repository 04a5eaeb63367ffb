package manifest

import (
	"net/url"
	"strconv"
	"strings"
)

// pointerTokens returns the tokens of a JSON Pointer in its form as a URL fragment, such as /$defs/a~1b.
func pointerTokens(fragment string) []string {
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	if fragment == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(fragment, "/"), "/")
	for i := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(tokens[i])
	}
	return tokens
}

// appendToken returns a URL fragment with one more token.
func appendToken(fragment, token string) string {
	return fragment + "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
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
