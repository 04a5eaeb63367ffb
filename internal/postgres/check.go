package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxNameBytes = 512     // of each part of a key, so that four parts fit into an index entry
	maxTextBytes = 2 << 10 // of a description
)

// nameField is a field of a request whose value becomes a key or part of one.
type nameField struct {
	field, value string
	required     bool
}

// checkNames returns an error for the first name that is missing or cannot be stored.
func checkNames(names ...nameField) *agent.Error {
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

// checkText returns an error if a text is too long or a text column cannot hold it.
func checkText(field, s string, maxBytes int) *agent.Error {
	switch {
	case len(s) > maxBytes:
		return agent.Invalid(field, "is longer than %d bytes", maxBytes)
	case strings.ContainsRune(s, 0):
		return agent.Invalid(field, "has a NUL character")
	case !utf8.ValidString(s):
		return agent.Invalid(field, "is not UTF-8")
	}
	return nil
}

// inElement returns the error with a field within element i of a list: list[i].field.
func inElement(list string, i int, err *agent.Error) *agent.Error {
	err.Field = fmt.Sprintf("%s[%d].%s", list, i, err.Field)
	return err
}

// isJSON reports whether raw is JSON that can be stored unchanged.
func isJSON(raw json.RawMessage) bool { return utf8.Valid(raw) && json.Valid(raw) }
