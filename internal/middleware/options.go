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

// decode reads the options of a plan into v, which holds the defaults.
func decode(options json.RawMessage, v any) error {
	if len(options) == 0 {
		return nil
	}
	return strictjson.Decode(options, v)
}

// within puts the path of an option in front of the field that an error names.
func within(path string, err error) error {
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

// or returns what p points to, fallback for nil.
func or[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// checkNames refuses a list that is no list of names.
func checkNames(field string, names []string) error {
	const most = 128
	if len(names) > most {
		return agent.Invalid(field, "want at most %d names, got %d", most, len(names))
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

// checkText refuses a text that is blank or too long. A blank one would be a message that providers refuse.
func checkText(field, text string, most int) error {
	if strings.TrimSpace(text) == "" || len(text) > most {
		return agent.Invalid(field, "want a text of 1 to %d bytes", most)
	}
	return nil
}

// oneOf refuses a word that is none of some.
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

// covers reports whether a middleware with the option tools is meant for a tool: no list means every tool.
func covers(tools []string, name string) bool { return len(tools) == 0 || slices.Contains(tools, name) }
