package pii

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// errNotJSON replaces the decoder's error, which quotes the text around it.
var errNotJSON = errors.New("is no JSON")

// editJSON applies the rule to the strings of a JSON value, names of members included. A number with a value in it becomes a string. Names
// that become equal get a number. It returns raw itself if nothing was found.
func (e *editor) editJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || e.err != nil {
		return raw
	}
	before := e.found
	out, err := e.rewriteJSON(raw)
	switch {
	case e.err != nil:
		return raw
	case err != nil:
		e.err = err
		return raw
	case e.found == before:
		return raw
	}
	return out
}

func (e *editor) rewriteJSON(raw json.RawMessage) (json.RawMessage, error) {
	var out bytes.Buffer
	loose := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	dec := jsontext.NewDecoder(bytes.NewReader(raw), loose...)
	enc := jsontext.NewEncoder(&out, loose...)
	var names []map[string]bool // of the objects that are open
	for e.err == nil {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errNotJSON
		}
		switch token.Kind() {
		case jsontext.KindBeginObject:
			names = append(names, map[string]bool{})
		case jsontext.KindEndObject:
			names = names[:len(names)-1]
		case jsontext.KindString:
			text := e.editText(token.String())
			if kind, n := dec.StackIndex(dec.StackDepth()); kind == jsontext.KindBeginObject && n%2 == 1 {
				text = uniqueName(names[len(names)-1], text)
			}
			token = jsontext.String(text)
		case jsontext.KindNumber:
			found := e.found
			if text := e.editText(token.String()); e.found > found {
				token = jsontext.String(text)
			}
		default:
		}
		if err := enc.WriteToken(token); err != nil {
			return nil, errNotJSON
		}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// uniqueName adds a name to taken and returns it, with a number behind it if it was taken.
func uniqueName(taken map[string]bool, name string) string {
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s_%d", name, n)
	}
	taken[unique] = true
	return unique
}
