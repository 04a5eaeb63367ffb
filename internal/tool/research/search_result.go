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

// searchResult is the result of a search.
type searchResult struct {
	total    int // matches at the source; 0: unknown
	works    []work
	warnings []string
	failed   []failure // sources that failed, if several were searched
}

// maxWarnings is the maximum number of warnings in an answer.
const maxWarnings = 20

// warn adds a warning, unless the result already has it.
func (f *searchResult) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); len(f.warnings) < maxWarnings && !slices.Contains(f.warnings, w) {
		f.warnings = append(f.warnings, w)
	}
}

// add adds a work, unless it lacks a key or a title.
func (f *searchResult) add(w *work) {
	if w.title != "" && len(w.keys()) > 0 && len(f.works) < MaxResults {
		f.works = append(f.works, *w)
	}
}

// readJSON decodes an answer. It ignores unknown fields and those of another type. An answer that is no JSON is an error.
func readJSON(title string, resp *response, v any) error {
	if looksLikeHTML(resp) {
		return unreadableError(title, "is a web page, not JSON")
	}
	err := json.Unmarshal(resp.body, v)
	if _, isTypeError := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !isTypeError {
		return unreadableError(title, "is malformed JSON")
	}
	return nil
}

func looksLikeHTML(resp *response) bool {
	head := bytes.ToLower(bytes.TrimSpace(resp.body[:min(len(resp.body), 512)]))
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}

// unreadableError returns the error of an answer that does not have the form of the source's answers. A later answer may have it.
func unreadableError(title, problem string) error {
	return agent.Errorf(agent.CodeUnavailable, "", "the answer of %s cannot be read: it %s", title, problem)
}

// answeredError returns the error of a source whose answer holds an error message.
func answeredError(title, message string) error {
	return agent.Errorf(agent.CodeUnavailable, "", "%s answered: %s", title, clip(tidy(message), maxErrorText))
}

// number is a count. Some services write it as a string.
type number int64

// UnmarshalJSON accepts 12, "12" and "1,234". Any other value is 0 and no error.
func (n *number) UnmarshalJSON(raw []byte) error {
	text := strings.ReplaceAll(strings.Trim(string(raw), `"`), ",", "")
	if v, err := strconv.ParseInt(text, 10, 64); err == nil && v > 0 {
		*n = number(v)
	}
	return nil
}
