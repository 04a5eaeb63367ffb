package manifest

import (
	"net/url"
	"strconv"
	"strings"
)

// pointer takes a JSON pointer in its form of a URL's fragment (#/$defs/a~1b) apart.
func pointer(fragment string) []string {
	fragment = strings.TrimPrefix(fragment, "#")
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

// fragment is the reverse of pointer, for one more token.
func fragment(parent, token string) string {
	return parent + "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
}

func index(token string, length int) (int, bool) {
	i, err := strconv.Atoi(token)
	return i, err == nil && i >= 0 && i < length
}

// route follows the validator's tokens through a tree and writes them as a path.
func (n *node) route(tokens []string) (last *node, way string) {
	last = n
	for _, token := range tokens {
		var next *node
		if last != nil && last.form == formArray {
			if i, ok := index(token, len(last.items)); ok {
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
