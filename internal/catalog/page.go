package catalog

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// pageToken is the position where a page ended.
type pageToken struct {
	After agent.DocumentKey `json:"after"` // the last document of the page
	Query string            `json:"query"` // digest of the query
}

// page returns the matching entries of the page that p asks for, and the token of the next page, empty if there is none. list is sorted by
// compare.
func page(
	list []*entry, compare func(a, b agent.DocumentKey) int, p agent.Page, query []any, match func(*entry) bool,
) (found []*entry, next string, err error) {
	size := p.Size
	switch {
	case size == 0:
		size = defaultPage
	case size < 0 || size > maxPage:
		return nil, "", agent.Invalid("page_size", "want 1 to %d, got %d", maxPage, size)
	}
	raw, err := json.Marshal(query)
	if err != nil {
		return nil, "", fmt.Errorf("encode query: %w", err)
	}
	sum := sha256.Sum256(raw)
	digest := base64.RawURLEncoding.EncodeToString(sum[:6])
	if p.Token != "" {
		after, err := readToken(p.Token, digest)
		if err != nil {
			return nil, "", err
		}
		start := slices.IndexFunc(list, func(e *entry) bool { return compare(e.doc.DocumentKey, after) > 0 })
		if start < 0 {
			return nil, "", nil
		}
		list = list[start:]
	}
	for _, e := range list {
		if !match(e) {
			continue
		}
		if len(found) == size {
			raw, err := json.Marshal(pageToken{found[size-1].doc.DocumentKey, digest})
			return found, base64.RawURLEncoding.EncodeToString(raw), err
		}
		found = append(found, e)
	}
	return found, "", nil
}

// readToken returns the last document of the previous page. The token must belong to the query with that digest.
func readToken(text, digest string) (agent.DocumentKey, error) {
	var t pageToken
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || t.Query != digest {
		return agent.DocumentKey{}, agent.Invalid("page_token", "is of another query")
	}
	return t.After, nil
}
