package clip

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text                 string
		n                    int
		bytes, prefix, runes string
	}{
		{"", 3, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "abc…", "abc", "ab…"},
		{"äöü", 3, "ä…", "ä", "äöü"},
		{"äöüß", 3, "ä…", "ä", "äö…"},
		{"日本語", 2, "…", "", "日…"},
	} {
		require.Equal(t, c.bytes, Bytes(c.text, c.n), c.text)
		require.Equal(t, c.prefix, Prefix(c.text, c.n), c.text)
		require.Equal(t, c.runes, Runes(c.text, c.n), c.text)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("äöüß", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n = max(n, 1); !utf8.ValidString(s) {
			return
		}
		for _, short := range []string{Bytes(s, n), Prefix(s, n), Runes(s, n)} {
			require.True(t, utf8.ValidString(short))
		}
		require.LessOrEqual(t, len(Prefix(s, n)), n)
		require.LessOrEqual(t, len(Bytes(s, n)), n+len(mark))
		require.LessOrEqual(t, utf8.RuneCountInString(Runes(s, n)), n)
	})
}
