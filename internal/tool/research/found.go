package research

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// searchResult is the answer of a source.
type searchResult struct {
	total    int // of all matches; 0: not told
	works    []work
	warnings []string
	failed   []failure // of several sources
}

// maxWarnings bounds what an answer warns of.
const maxWarnings = 20

func (f *searchResult) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); len(f.warnings) < maxWarnings && !slices.Contains(f.warnings, w) {
		f.warnings = append(f.warnings, w)
	}
}

// add appends a work that has a key and a title.
func (f *searchResult) add(w *work) {
	if w.title != "" && len(w.keys()) > 0 && len(f.works) < MaxResults {
		f.works = append(f.works, *w)
	}
}

// readJSON decodes an answer. It leaves out fields that are unknown or of another type. An answer that is no JSON is an error.
func readJSON(title string, resp *response, v any) error {
	if looksLikeHTML(resp) {
		return unreadable(title, "is a web page, not JSON")
	}
	err := json.Unmarshal(resp.body, v)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return unreadable(title, "is malformed JSON")
	}
	return nil
}

func looksLikeHTML(resp *response) bool {
	head := bytes.ToLower(bytes.TrimSpace(resp.body[:min(len(resp.body), 512)]))
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}

// unreadable returns the error of an answer that has not the form of the source. A later one may have it.
func unreadable(title, what string) error {
	return agent.Errorf(agent.CodeUnavailable, "", "the answer of %s cannot be read: it %s", title, what)
}

// number is a count that some services write as a string.
type number int64

// UnmarshalJSON takes 12, "12" and "1,234"; anything else is 0: a count is never worth an error.
func (n *number) UnmarshalJSON(raw []byte) error {
	text := strings.ReplaceAll(strings.Trim(string(raw), `"`), ",", "")
	if v, err := strconv.ParseInt(text, 10, 64); err == nil && v > 0 {
		*n = number(v)
	}
	return nil
}
