package delegate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// member is a member of an object.
type member struct {
	name  string
	value jsontext.Value
}

// messageOf returns the message of inputs: the first of message, task and input that is a string, followed by the other members as JSON.
func messageOf(inputs json.RawMessage) (string, error) {
	members, err := readMembers(inputs)
	if err != nil {
		return "", agent.Invalid("inputs", "malformed JSON: %w", err)
	}
	if len(members) == 0 {
		return "", agent.Invalid("inputs", "is empty: give the task as inputs.message")
	}
	at := messageIndex(members)
	if at < 0 {
		return encodeMembers(members)
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
	more, err := encodeMembers(rest)
	return string(text) + "\n\n" + more, err
}

// messageIndex returns the index of the message, -1 if there is none.
func messageIndex(members []member) int {
	for _, name := range []string{"message", "task", "input"} {
		for i, m := range members {
			if m.name == name && m.value.Kind() == jsontext.KindString {
				return i
			}
		}
	}
	return -1
}

// readMembers returns the members of an object in their order.
func readMembers(object json.RawMessage) ([]member, error) {
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

// encodeMembers returns members as a JSON object without spaces; numbers keep their digits.
func encodeMembers(members []member) (string, error) {
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
