package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// decode decodes the options of a plan into v, which holds the defaults.
func decode(options json.RawMessage, v any) error {
	if len(options) == 0 {
		return nil
	}
	return strictjson.Decode(options, v)
}

// withPath puts the path of an option in front of the field of an error.
func withPath(path string, err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	inner := *e
	inner.Field = path
	if e.Field != "" {
		inner.Field += "." + e.Field
	}
	return &inner
}

// valueOr returns *p, or fallback if p is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// checkNames refuses a list with something that is no name.
func checkNames(field string, names []string) error {
	const maxCount = 128
	if len(names) > maxCount {
		return agent.Invalid(field, "want at most %d names, got %d", maxCount, len(names))
	}
	for i, name := range names {
		if err := checkName(fmt.Sprintf("%s[%d]", field, i), name); err != nil {
			return err
		}
	}
	return nil
}

func checkName(field, name string) error {
	const longest = 128
	if name == "" || len(name) > longest {
		return agent.Invalid(field, "want a name of 1 to %d bytes", longest)
	}
	return nil
}

// checkText refuses a text that is too long, or blank: providers refuse blank messages.
func checkText(field, text string, maxBytes int) error {
	if strings.TrimSpace(text) == "" || len(text) > maxBytes {
		return agent.Invalid(field, "want a text of 1 to %d bytes", maxBytes)
	}
	return nil
}

// oneOf refuses a word that is not among the wanted ones.
func oneOf[T ~string](field string, got T, want ...T) error {
	if slices.Contains(want, got) {
		return nil
	}
	var list strings.Builder
	for i, w := range want {
		switch {
		case i == 0:
		case i == len(want)-1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(string(w))
	}
	return agent.Invalid(field, "want %s, got %.50q", list.String(), string(got))
}

// appliesTo reports whether the option tools names a tool. No list means every tool.
func appliesTo(tools []string, name string) bool {
	return len(tools) == 0 || slices.Contains(tools, name)
}
