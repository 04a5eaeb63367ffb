package dataset

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// The scanner finds what a decoder finds, and on what is no JSON it ends.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":{"c":[1,2,{"d":"}"}]},"e":null}`, ` { "a" : "x\"}" , "\u0062" : [ ] } `, `{}`, `[1, [2], "]" ,{"a":[]}]`, `[]`, `"x"`, `{"a`, `{"a":`, `[[[`, `{"":"\\"}`,
		`{"a":1,}`, `{"a" 1}`, `[,]`, `{,}`, "{\"a\":1\x00}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		var names, values []string
		var m Member
		for c := MembersOf(text); c.Next(&m); {
			names, values = append(names, m.Name()), append(values, string(text[m.From:m.To]))
		}
		var items []string
		for c := ElementsOf(text); ; {
			from, to, ok := c.Next()
			if !ok {
				break
			}
			items = append(items, string(text[from:to]))
		}
		if !jsontext.Value(text).IsValid() || len(text) == 0 {
			return
		}
		require.Equal(t, len(text), skipValue(text, 0))
		dec := jsontext.NewDecoder(bytes.NewReader(text))
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		switch text[0] {
		case '{':
			for i := range names {
				name, err := dec.ReadToken()
				require.NoError(t, err)
				require.Equal(t, name.String(), names[i])
				v, err := dec.ReadValue()
				require.NoError(t, err)
				require.Equal(t, string(v), values[i])
			}
			require.Equal(t, jsontext.EndObject.Kind(), dec.PeekKind())
		case '[':
			for i := range items {
				v, err := dec.ReadValue()
				require.NoError(t, err)
				require.Equal(t, string(v), items[i])
			}
			require.Equal(t, jsontext.EndArray.Kind(), dec.PeekKind())
		}
	})
}
