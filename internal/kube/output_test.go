package kube

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestResultOf(t *testing.T) {
	tests := map[string]struct{ message, logs, result, rest string }{
		"last line":               {"", "a\nb\n{\"x\":1}\n", `{"x":1}`, "a\nb\n"},
		"blank lines behind":      {"", "a\n[1]\n\n \n", `[1]`, "a\n"},
		"only line":               {"", "7", `7`, ""},
		"all of it":               {"", "{\n  \"x\": 1\n}\n", "{\n  \"x\": 1\n}", ""},
		"NDJSON":                  {"", "{\"x\":1}\n{\"x\":2}\n", `{"x":2}`, "{\"x\":1}\n"},
		"carriage return":         {"", "a\r\n{}\r\n", `{}`, "a\r\n"},
		"no JSON":                 {"", "done\n", "", "done\n"},
		"nothing":                 {"", "", "", ""},
		"message":                 {" {\"m\":1}\n", "{}\n", `{"m":1}`, "{}\n"},
		"message that is no JSON": {"bad", "{}\n", `{}`, ""},
		"two documents on a line": {"", "{} {}", "", "{} {}"},
		"half a document":         {"", "{\"x\":\n", "", "{\"x\":\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			result, rest := resultOf(tt.message, tt.logs)
			require.Equal(t, tt.result, string(result))
			require.Equal(t, tt.rest, rest)
		})
	}
}

func TestEndingIsBounded(t *testing.T) {
	for _, chunk := range []int{1, 1000, MaxLogs - 1, MaxLogs, 3 * MaxLogs} {
		var e tailBuffer
		var all strings.Builder
		for i := 0; all.Len() < 3*MaxLogs; i++ {
			part := strings.Repeat(string(rune('a'+i%26)), chunk)
			n, err := e.Write([]byte(part))
			require.NoError(t, err)
			require.Equal(t, chunk, n)
			all.WriteString(part)
			if chunk == 1 && i > 3*MaxLogs/2 {
				break
			}
		}
		require.LessOrEqual(t, cap(e.buf), 4*MaxLogs)
		require.True(t, strings.HasSuffix(all.String(), string(e.bytes())))
		require.Len(t, e.bytes(), MaxLogs)
	}
}

// Whatever a container writes: what is kept is text, and a result is JSON.
func FuzzOutput(f *testing.F) {
	f.Add("", "hello\n{\"a\":\"\\u0000\"}\n")
	f.Add("{}", "\xff\x00\x1b[31m\n")
	f.Add("", "[1,\n2]\n")
	f.Fuzz(func(t *testing.T, message, logs string) {
		clean := cleanText(logs)
		require.True(t, utf8.ValidString(clean))
		require.NotContains(t, clean, "\x00")
		result, rest := resultOf(message, clean)
		require.True(t, result == nil || json.Valid(result))
		require.True(t, strings.HasPrefix(clean, rest))
		require.LessOrEqual(t, len(tail(rest, maxQuote)), maxQuote+len("…"))
	})
}
