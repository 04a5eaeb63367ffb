package cli

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestToYAML(t *testing.T) {
	body, err := os.ReadFile("testdata/document.json")
	require.NoError(t, err)
	text, err := toYAML(body)
	require.NoError(t, err)
	golden(t, "document_yaml", text)
	again, err := toYAML(body)
	require.NoError(t, err)
	require.Equal(t, text, again)

	for _, bad := range []string{"", "{", `{"a":1} x`, "nope"} {
		_, err := toYAML(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}

func FuzzToYAML(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"AgentInstance","name":"a","version":"1"}`, `"a\nb"`, `"a \nb"`, `"\n a"`, `" a\n"`, `"a\n\n"`, `"a\r\nb"`, `"\u001b[2J"`,
		`"\u0085"`, `"\ufeffx"`, `["yes","No","on","~","null","0x1F","1_000","1e3","12:30:00","2026-11-21",".inf","<<","=","!x","&a","*a","- a","a: b","#"]`,
		`{"yes":1,"1":2,"null":3,"":4,"a\nb":5," ":6,"?":7}`, `[1,-0,1.5,1e+21,1e-7,12345678901234567890]`, `[[],{},[[[]]],null,true,false]`,
		`"trailing "`, `"\ttab"`, `"a\n\tb"`, `"a: b\n# c\n--- \n"`, `"---\n"`, `"...\n"`, `"%YAML\n"`, `"a\u2028b\nc"`, `"🎉\n🎉"`, `"\u200b\n\u200b"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, err := toYAML(body)
		if err != nil {
			return
		}
		var got, want any
		if json.Unmarshal(body, &want) != nil {
			return // a number beyond float64, which no document holds
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &got), text)
		back, err := json.Marshal(got)
		require.NoError(t, err, text)
		expected, err := json.Marshal(want)
		require.NoError(t, err)
		require.JSONEq(t, string(expected), string(back), text)
	})
}
