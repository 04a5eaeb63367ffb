package redact

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

func masking(text string, secrets ...string) string {
	return string(NewMasker(secrets...).Mask([]byte(text)))
}

// However the characters of a secret are written, it is found, and what is not the secret stays.
func TestMaskEscaped(t *testing.T) {
	t.Parallel()
	const plain, odd = "S3cr3t/ToKen", `p"q\r/é😀 <&'`
	for name, tt := range map[string]struct{ text, secret string }{
		"as it is":             {plain, plain},
		"one character":        {`S3cr3t/\u0054oKen`, plain},
		"a slash":              {`S3cr3t\/ToKen`, plain},
		"lower hex":            {`S3cr3t\u002fToKen`, plain},
		"upper hex":            {`S3cr3t\u002FToKen`, plain},
		"percent":              {`S3cr3t%2fToKen`, plain},
		"all in percent":       {`%53%33%63%72%33%74%2F%54%6f%4B%65%6E`, plain},
		"percent twice":        {`S3cr3t%252fToKen`, plain},
		"entities":             {`&#83;3cr3t&#x2F;&#X54;oKen`, plain},
		"mixed":                {`\u00533c%723t\/&#84;o\u004ben`, plain},
		"JSON in JSON":         {`\\u00533cr3t\\/To\\\\u004Ben`, plain},
		"hex of other tongues": {`\x533cr3t/ToKe\x6e`, plain},
		"JSON":                 {`p\"q\\r\/\u00e9\ud83d\uDE00 \u003c\u0026'`, odd},
		"JSON twice":           {`p\\\"q\\\\r\\/\\u00e9\\ud83d\\uDE00 <&'`, odd},
		"a query":              {url.QueryEscape(odd), odd},
		"a path":               {url.PathEscape(odd), odd},
		"HTML":                 {html.EscapeString(odd), odd},
		"XML":                  {`p&quot;q\r/é&#128512; &lt;&amp;&apos;`, odd},
		"looks escaped":        {`%41%41\u0041`, `%41%41\u0041`},
		"line breaks":          {`a\r\n\tb\b\fc`, "a\r\n\tb\b\fc"},
		"ends in a backslash":  {`secret\\`, `secret\`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.JSONEq(t, `{"k":"[redacted]","n":1}`, masking(`{"k":"`+tt.text+`","n":1}`, tt.secret))
		})
	}
	for _, other := range []string{
		``, `\`, `%`, `&`, `\u`, `S3cr3t/Toke`, `s3cr3t/token`, `S3cr3t\u002gToKen`, `S3cr3t%2gToKen`, `S3cr3t&#x2F ToKen`, `S3cr3t\\\\ToKen`,
		`\ud83d\u0041`, `\ud83d`, `&#;&#x;&#99999999;&;&amp`, `S3cr3t&unknown;ToKen`,
	} {
		require.Equal(t, other, masking(other, plain, odd, "another"))
		require.Equal(t, other, masking(other))
		require.Equal(t, other, masking(other, ""))
	}
	require.Equal(t, "[redacted]er", masking(`abcdefer`, "abcdef", "abc"), "the longest")
}

// written writes a character in one of the ways.
func written(r *rand.Rand, c rune) string {
	switch r.IntN(6) {
	case 0:
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
		}
		return b.String()
	case 1:
		return strings.ReplaceAll(url.QueryEscape(string(c)), "+", "%20")
	case 2:
		return fmt.Sprintf([]string{"&#%d;", "&#x%x;", "&#X%X;"}[r.IntN(3)], c)
	case 3:
		if c == '/' || c == '"' || c == '\\' {
			return `\` + string(c)
		}
	}
	return string(c)
}

// Secrets that are written in any mix of ways are found, and in whatever pieces a body comes, as in the whole.
func TestMaskProperty(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune(`abcXYZ019-_/"\ =é漢😀`)
	for round := range 400 {
		secrets := make([]string, 1+r.IntN(3))
		for i := range secrets {
			runes := []rune("§" + strconv.Itoa(i))
			for range 6 + r.IntN(20) {
				runes = append(runes, alphabet[r.IntN(len(alphabet))])
			}
			secrets[i] = string(runes) + "!"
		}
		var text, want strings.Builder
		for range 1 + r.IntN(12) {
			noise := []string{"nothing ", `\"`, "%4", "&am ", `{"a":1}`, strings.Repeat("x", r.IntN(50)), "§0", `\u00`, "<p>"}[r.IntN(9)] + " "
			text.WriteString(noise)
			want.WriteString(noise)
			for _, c := range secrets[r.IntN(len(secrets))] {
				text.WriteString(written(r, c))
			}
			want.WriteString(Placeholder)
		}
		require.Equal(t, want.String(), masking(text.String(), secrets...), "round %d, %q", round, secrets)
		for _, body := range []io.Reader{
			iotest.OneByteReader(strings.NewReader(text.String())), iotest.HalfReader(strings.NewReader(text.String())),
			&pieces{Reader: strings.NewReader(text.String()), sizes: r},
		} {
			out, err := io.ReadAll(NewReader(io.NopCloser(body), NewMasker(secrets...)))
			require.NoError(t, err)
			require.Equal(t, want.String(), string(out), "round %d", round)
		}
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	io.Reader

	sizes *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), 1+p.sizes.IntN(40))])
}

// What is held back is bounded, and a secret that is full of what could be escapes takes no more than its places.
func TestMaskIsBounded(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, s := range []string{strings.Repeat("a", 2000), strings.Repeat("%25", 60), strings.Repeat(`\`, 60), strings.Repeat(`+ `, 60)} {
		body := strings.Repeat(s[:len(s)-1]+"~", 3)
		require.Equal(t, body, masking(body, s+"!"))
		require.Equal(t, "x[redacted]", masking("x"+s+"!", s+"!"))
	}
	require.Less(t, time.Since(began), 30*time.Second)

	b := &reader{ReadCloser: io.NopCloser(io.LimitReader(endless(`\u0061`), 120_000)), masker: NewMasker(strings.Repeat("a", 200) + "b")}
	for b.err == nil {
		b.fill()
		require.LessOrEqual(t, len(b.pending), 6*201)
	}
	require.Len(t, b.masked, 120_000)
}

// endless is a text over and over.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := len(p) / len(e) * len(e)
	for i := range n {
		p[i] = e[i%len(e)]
	}
	return n, nil
}

// However a body comes in pieces, what is read is what one replacement of the whole would be.
func TestMaskedBody(t *testing.T) {
	t.Parallel()
	secrets := []string{"abcabcabd", "abcabd", "abcabc"}
	for _, text := range []string{
		"", "nothing", "abcab", "abcabc", "xabcabdx", "abcabcabdabcabd", "abcabcab", "ababcabcababcabd", strings.Repeat("abcabcabcabd-", 3000), "abcabcabcabcabcabd",
	} {
		var whole string
		for i, body := range []io.Reader{
			strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text)),
			iotest.DataErrReader(strings.NewReader(text)),
		} {
			out, err := io.ReadAll(NewReader(io.NopCloser(body), NewMasker(secrets...)))
			require.NoError(t, err)
			for _, s := range secrets {
				require.False(t, bytes.Contains(out, []byte(s)), "%q in %q", s, out)
			}
			if i == 0 {
				whole = string(out)
			}
			require.Equal(t, whole, string(out), "body %d of %.40q", i, text)
		}
	}
	out, err := io.ReadAll(NewReader(io.NopCloser(io.MultiReader(strings.NewReader("abcab"), iotest.ErrReader(errors.New("cut")))), NewMasker(secrets...)))
	require.EqualError(t, err, "cut")
	require.Equal(t, "abcab", string(out))
}
