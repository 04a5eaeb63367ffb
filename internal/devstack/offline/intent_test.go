package offline

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/intents.golden")

const flightsURL = "http://127.0.0.1:8081/flights"

// The golden file lists prompts and, below each, what they become: one line for each step, or "not understood".
func TestPromptsBecomePipelines(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "intents.golden")
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	var got strings.Builder
	n := 0
	for line := range strings.SplitSeq(string(golden), "\n") {
		prompt, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		n++
		got.WriteString("> " + prompt + "\n" + describe(t, prompt) + "\n")
	}
	require.Greater(t, n, 30, "the golden file has lost its prompts")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o600))
	}
	require.Equal(t, string(golden), got.String())
}

func describe(t *testing.T, prompt string) string {
	t.Helper()
	in := parseIntent(prompt)
	var b strings.Builder
	switch raw, ok := plan(&in, earlier{ref: "cas://sha256:aa"}, flightsURL); {
	case !in.understood() || !ok:
		b.WriteString("not understood\n")
	default:
		var args pipelineArgs
		require.NoError(t, json.Unmarshal(raw, &args))
		if args.InputRef != "" {
			b.WriteString("input_ref " + args.InputRef + "\n")
		}
		for _, s := range args.Pipeline {
			var plain strings.Builder
			enc := json.NewEncoder(&plain)
			enc.SetEscapeHTML(false)
			var v step
			require.NoError(t, json.Unmarshal(s, &v))
			require.NoError(t, enc.Encode(v))
			b.WriteString(plain.String())
		}
	}
	if len(in.ignored) > 0 {
		b.WriteString("ignored: " + strings.Join(in.ignored, ", ") + "\n")
	}
	return b.String()
}

// Any prompt is parsed, always to the same intent, and what it becomes is well-formed and within the tool's bounds.
func FuzzParseIntent(f *testing.F) {
	for _, s := range []string{
		"fetch flights from NYC to LAX, sort by price, show top 3", "say 10 words slowly", "now filter those under $1,500.50",
		`fetch https://a.b/c?d=e, where "x y" != 'z' or not a in (1, "b", true) and c contains "d, only p, q and r`, "cheapest 0 flights → ->", "where where and or (((", "≤≥≠!=<>==",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		in := parseIntent(prompt)
		require.Equal(t, in, parseIntent(prompt))
		require.LessOrEqual(t, in.say, maxSay)
		raw, ok := plan(&in, earlier{}, flightsURL)
		if !ok {
			return
		}
		var args pipelineArgs
		require.NoError(t, json.Unmarshal(raw, &args))
		require.NotEmpty(t, args.Pipeline)
		require.LessOrEqual(t, len(args.Pipeline), 5)
	})
}

func FuzzToolAnswer(f *testing.F) {
	for _, s := range []string{
		`{"rows":[{"a":1}],"row_count":1}`, `{"error":{"message":"x","retryable":true}}`, `{"preview":{"sample":[1],"row_count":9},"ref":"cas://sha256:ab"}`,
		`error: no`, `[]`, `{"rows":[{"a|b":"c\nd"},3]}`, `null`, ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		require.NotEmpty(t, toolAnswer([]string{content}, nil))
	})
}
