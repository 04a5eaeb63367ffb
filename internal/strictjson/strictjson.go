// Package strictjson decodes JSON from outside. Unknown fields, wrong types, duplicate names and trailing data are errors with the path of
// the field. It uses go-json-experiment, the coming encoding/json/v2, because encoding/json reports a field without its path and accepts
// duplicate names.
package strictjson

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Decode decodes one JSON value into v. Its error is an [agent.Error] of [agent.CodeInvalid] with the field as a path such as
// messages[0].role; malformed JSON names the offset instead.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return agent.Invalid(Path(string(semantic.JSONPointer)), "%s", semanticMessage(semantic))
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return agent.Invalid(Path(string(syntax.JSONPointer)), "is given twice")
		}
		return agent.Invalid(Path(string(syntax.JSONPointer)), "malformed JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	return agent.Invalid("", "malformed JSON: %w", err)
}

// maxQuoted bounds how much of a value an error repeats, in bytes.
const maxQuoted = 100

// semanticMessage says why a value does not fit its Go type.
func semanticMessage(e *json.SemanticError) string {
	if errors.Is(e, json.ErrUnknownName) {
		return "unknown field"
	}
	if e.GoType == reflect.TypeFor[time.Time]() {
		got := jsonKindName(e.JSONKind)
		if bad, ok := errors.AsType[*time.ParseError](e.Err); ok {
			got = strconv.Quote(clip.Bytes(strings.Trim(bad.Value, `"`), maxQuoted))
		}
		return `want a time such as "2026-11-22T12:00:00Z", got ` + got
	}
	if e.JSONKind != 0 && e.GoType != nil {
		want := goKindName(e.GoType.Kind().String())
		if e.JSONKind == '0' && errors.Is(e.Err, strconv.ErrSyntax) { // 1.5, or 1e3
			return fmt.Sprintf("want %s, got %s", want, clip.Bytes(string(e.JSONValue), maxQuoted))
		}
		s := fmt.Sprintf("want %s, got %s", want, jsonKindName(e.JSONKind))
		if e.Err != nil {
			s += ": " + clip.Bytes(e.Err.Error(), maxQuoted) // it may repeat the value
		}
		return s
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return "wrong type"
}

// goKindName returns the name of a Go kind in JSON.
func goKindName(k string) string {
	switch {
	case strings.HasPrefix(k, "int"), strings.HasPrefix(k, "uint"):
		return "a whole number"
	case strings.HasPrefix(k, "float"):
		return "a number"
	case k == "string":
		return "a string"
	case k == "bool":
		return "true or false"
	case k == "slice", k == "array":
		return "an array"
	default:
		return "an object"
	}
}

// jsonKindName returns the name of a JSON type.
func jsonKindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	default:
		return k.String()
	}
}

// Path returns a JSON Pointer (/messages/0/role) as errors write it (messages[0].role).
func Path(pointer string) string {
	var b strings.Builder
	for token := range jsontext.Pointer(pointer).Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}
