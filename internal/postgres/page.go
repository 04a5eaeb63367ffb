package postgres

import (
	"encoding/base64"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// maxListBytes bounds the documents of a page.
const maxListBytes = 8 << 20

// pageToken makes a page token of the place of a page's last entry.
func pageToken(place any) (string, error) {
	text, err := json.Marshal(place)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// readPageToken reads what [pageToken] made into place, which stays as it is for "". valid says whether a page can have had it.
func readPageToken[T any](s string, place *T, valid func(*T) bool) error {
	if s == "" {
		return nil
	}
	malformed := agent.Invalid("page_token", "is not one that a page had")
	if len(s) > maxTokenBytes {
		return malformed
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || strictjson.Decode(text, place) != nil || !valid(place) {
		return malformed
	}
	return nil
}

// named is a text of a request, for [checkNames].
type named struct {
	field, value string
	required     bool
}

// checkNames refuses what a key cannot be.
func checkNames(names ...named) *agent.Error {
	for _, n := range names {
		if err := checkText(n.field, n.value, maxNameBytes); err != nil {
			return err
		}
		if n.required && n.value == "" {
			return agent.Invalid(n.field, "is missing")
		}
	}
	return nil
}
