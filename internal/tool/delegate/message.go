package delegate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// member is one of an object, in its order.
type member struct {
	name  string
	value jsontext.Value
}

// message makes the message of inputs, an object: the first of message, task and input that is a string, and behind it, as JSON, what
// else was given. Nothing of inputs is lost.
func message(inputs json.RawMessage) (string, error) {
	members, err := read(inputs)
	if err != nil {
		return "", agent.Invalid("inputs", "malformed JSON: %w", err)
	}
	if len(members) == 0 {
		return "", agent.Invalid("inputs", "is empty: give the task as inputs.message")
	}
	at := find(members)
	if at < 0 {
		return compact(members)
	}
	text, err := jsontext.AppendUnquote(nil, members[at].value)
	if err != nil {
		return "", agent.Invalid("inputs."+members[at].name, "malformed JSON: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", agent.Invalid("inputs."+members[at].name, "is empty")
	}
	rest := slices.Concat(members[:at], members[at+1:])
	if len(rest) == 0 {
		return string(text), nil
	}
	more, err := compact(rest)
	return string(text) + "\n\n" + more, err
}

// find is where the message is, -1 when nowhere.
func find(members []member) int {
	for _, name := range []string{"message", "task", "input"} {
		for i, m := range members {
			if m.name == name && m.value.Kind() == jsontext.KindString {
				return i
			}
		}
	}
	return -1
}

func read(object json.RawMessage) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var members []member
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		members = append(members, m)
	}
	return members, nil
}

// compact writes members as an object without spaces; numbers keep their digits.
func compact(members []member) (string, error) {
	var b bytes.Buffer
	for i, m := range members {
		b.WriteByte("{,"[min(i, 1)])
		name, err := jsontext.AppendQuote(nil, m.name)
		if err != nil {
			return "", agent.Invalid("inputs", "malformed JSON: %w", err)
		}
		b.Write(name)
		b.WriteByte(':')
		if err := m.value.Compact(); err != nil {
			return "", agent.Invalid("inputs."+m.name, "malformed JSON: %w", err)
		}
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.String(), nil
}
