package delegate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// member is a member of an object.
type member struct {
	name  string
	value jsontext.Value
}

// text returns the text of a value that is a string.
func (m *member) text() string {
	text, _ := jsontext.AppendUnquote(nil, m.value) // the arguments were decoded strictly, so it is well-formed
	return string(text)
}

// messageOf returns the message in inputs: the first of message, task and input that is a string, followed by the other members as JSON.
func messageOf(inputs json.RawMessage) (string, error) {
	members := readMembers(inputs)
	if len(members) == 0 {
		return "", agent.Invalid("inputs", "is empty: give the task as inputs.message")
	}
	i := messageIndex(members)
	if i < 0 {
		return encodeMembers(members), nil
	}
	text := members[i].text()
	if strings.TrimSpace(text) == "" {
		return "", agent.Invalid("inputs."+members[i].name, "is empty")
	}
	if others := slices.Delete(members, i, i+1); len(others) > 0 {
		text += "\n\n" + encodeMembers(others)
	}
	return text, nil
}

// messageIndex returns the index of the message, -1 if there is none.
func messageIndex(members []member) int {
	for _, name := range []string{"message", "task", "input"} {
		isMessage := func(m member) bool { return m.name == name && m.value.Kind() == jsontext.KindString }
		if i := slices.IndexFunc(members, isMessage); i >= 0 {
			return i
		}
	}
	return -1
}

// readMembers returns the members of a well-formed object in their order.
func readMembers(object json.RawMessage) []member {
	var members []member
	var m dataset.Member
	for c := dataset.MembersOf(object); c.Next(&m); {
		members = append(members, member{m.Name(), jsontext.Value(object[m.From:m.To])})
	}
	return members
}

// encodeMembers returns members as a compact JSON object. Numbers keep their digits.
func encodeMembers(members []member) string {
	var b bytes.Buffer
	for i, m := range members {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := jsontext.AppendQuote(nil, m.name) // it was UTF-8
		b.Write(name)
		b.WriteByte(':')
		_ = json.Compact(&b, m.value) // it was JSON
	}
	b.WriteByte('}')
	return b.String()
}
