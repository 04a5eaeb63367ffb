package pii_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// seeds are texts that lie near the borders of what is found.
func seeds() []string {
	return []string{
		"joe@example.com", "a@b.com-x@y.com", "4111 1111 1111 1111 4111-1111-1111-1111", "1.2.3.4:1::2", "1.2.3.4.fe80::1", "00:11:22:33:44:55:66", "aabb.ccdd.eeff.0011", "a@b.xn--p1ai", "3056 930902 5904", "https://a.b/c).", "www.a.b",
		"example.com/x[]https://", "sk-abcd-sk-abcd", "\xe2\x82 é日本", "::ffff:1.2.3.4.5", "0.0.0.0::0", "0::.0::", "fe80::a::0", "4111\u00a01111\u00a01111\u00a01111",
	}
}

// However a text is cut, the stream emits what Apply makes of it.
func FuzzStream(f *testing.F) {
	for i, s := range seeds() {
		f.Add(s, []byte{1, 2, 3}, uint8(i))
	}
	all := subjects(f)
	f.Fuzz(func(t *testing.T, text string, cuts []byte, which uint8) {
		var chunks []string
		for i, rest := 0, text; len(rest) > 0; i++ {
			n := len(rest)
			if i < len(cuts) {
				n = min(n, int(cuts[i]))
			}
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		requireStream(t, all[int(which)%len(all)].rule, chunks...)
	})
}

// What has been redacted or hashed has nothing left to find.
func FuzzApply(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	var rules []*pii.Rule
	for _, kind := range []string{pii.TypeEmail, pii.TypeCreditCard, pii.TypeIP, pii.TypeMACAddress, pii.TypeURL} {
		rules = append(rules, newRule(f, kind, pii.StrategyRedact), newRule(f, kind, pii.StrategyHash))
	}
	rules = append(rules, newDetector(f, pii.StrategyHash, `\bsk-[a-z]{4,}\b`, 0))
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range rules {
			once, _, err := r.Apply(text)
			require.NoError(t, err)
			twice, found, err := r.Apply(once)
			require.NoError(t, err)
			require.Equal(t, once, twice, "%s of %q", r.Type(), text)
			require.Zero(t, found)
		}
	})
}
