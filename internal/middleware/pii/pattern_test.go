package pii_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// A detector finds what regexp finds, as long as values are not longer than the bound.
func TestPatternAgreesWithRegexp(t *testing.T) {
	expressions := []string{
		`abc`, `a|ab`, `(a|ab)(c|bcd)(d*)`, `a+?b`, `[ab]+c?`, `\ba+\b`, `\Ba`, `^a+`, `a+$`, `(?m)^b+$`, `\Aab`, `b\z`, `(?i)k[a-c]`, `é+`, `[^a]b`, `.b.`, `(?s)a.b`,
		`(ab){2,3}`, `(a*b)+`, `a{2,}`, `(?:a|b|c){3}`, `[a-z&&c]`, `(a)(b)?c`, `\p{Greek}`, `a(b|c)*?c`, `(|a)b`, `(a?){3}b`, "[\\x{80}-\\x{10FFFF}]a", `\xff|b`,
	}
	for _, expression := range expressions {
		r, _, err := pii.NewPattern(expression)
		require.NoError(t, err, expression)
		re := regexp.MustCompile(expression)
		t.Run(expression, rapid.MakeCheck(func(t *rapid.T) {
			pieces := []string{"a", "b", "c", "d", "ab", "K", "\u212a", "é", "β", "\n", " ", "_", "\xff", "\xe2\x82"}
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "text"), "")
			got, _, err := r.Apply(text)
			require.NoError(t, err)
			require.Equal(t, re.ReplaceAllLiteralString(text, "[REDACTED_X]"), got, "%q", text)
		}))
	}
}

func TestPatternKnowsItsLength(t *testing.T) {
	for expression, want := range map[string]int{
		`abc`: 3, `a|bcd`: 3, `(?i)ab`: 2, `(?i)ak`: 4, `é`: 2, `[a-é]`: 2, `.`: 4, `a{2,5}`: 5, `(ab?){3}x`: 7, `\bab\b$`: 2, `a+`: 256, `(ab)*c`: 256, `[a-z]{4000}`: 0,
		`.{700}.{700}`: 256, `(\b)+a`: 1, `.{1000}`: 4000,
	} {
		_, got, err := pii.NewPattern(expression)
		if want == 0 {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, expression)
		require.Equal(t, want, got, expression)
	}
}
