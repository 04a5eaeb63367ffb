package pii_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// subject is a rule with pieces of text that are of interest to it.
type subject struct {
	name   string
	rule   *pii.Rule
	pieces []string
}

// subjects has every type under every strategy.
func subjects(t testing.TB) []subject {
	t.Helper()
	pieces := map[string][]string{
		pii.TypeEmail: {
			"joe@example.com", "a+b@c.co.uk", "xn--", "p1ai", "user@example.xn--p1ai", "@", ".", "com", "_", "-", "%", "ann", "joe@x", ".com", strings.Repeat("n", 250), strings.Repeat("d.", 130),
			strings.Repeat("l", 256),
		},
		pii.TypeCreditCard: {"4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "30569309025904", "3056 930902 5904", "1", "1111", "4111", "-", "\u00a0", "\u2011", "_", "x", "3782", "822463"},
		pii.TypeIP: {
			"192.168.0.1", "2001:db8::1", "::ffff:1.2.3.4", ":", ".", "::", "1", "fe80", "1.2", "10", "x", "_", "]:80", "2001:0db8:85a3:0000:0000:8a2e:0370:7334", "ABCD:ABCD:ABCD:ABCD:ABCD:ABCD:192.168.158.190", "ABCD:ABCD:ABCD:ABCD:ABCD:ABCD:192.168.158.190.5",
			"x9.1.2.3.4",
		},
		pii.TypeMACAddress: {"00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "aabb.ccdd.eeff", "aabb", ".", "00", ":", "-", "aa:", "bb-", "f", "_", "g"},
		pii.TypeURL: {
			"https://example.com/x", "http://", "https://", "h", "www.", "www.example.com", "example.com/", ".", "/", "/a", ")", "(", "?", "!", "com", "x", "\u3002", "\u8def",
			"]", strings.Repeat("p", 500), strings.Repeat("q/", 1000), strings.Repeat("h", 64), "1.2.3.4/",
		},
	}
	var out []subject
	for kind, p := range pieces {
		for _, strategy := range []string{pii.StrategyRedact, pii.StrategyMask, pii.StrategyHash} {
			out = append(out, subject{kind + "/" + strategy, newRule(t, kind, strategy), p})
		}
	}
	detectors := map[string][]string{
		`sk-[a-zA-Z0-9]{8}`:           {"sk-", "s", "k", "-", "abcd1234", "abcd", "sk-abcdEFGH"},
		`\bsk-[a-z]+\b`:               {"sk-", "sk-abc", "x", "_", "1", strings.Repeat("k", 40), strings.Repeat("abc", 100)},
		`(?i)key=\S+`:                 {"key=", "KEY=", "ab", "é", "\u212aey=", strings.Repeat("v", 60), strings.Repeat("w", 300)},
		`(?m)^id: \d+$`:               {"id: ", "12", "\n", "id: 7\n", "x", strings.Repeat("9", 70)},
		`\d{3}-\d{2}-\d{4}`:           {"123-45-6789", "12", "3-", "-", "123-", "45-"},
		`(?s)<<.*?>>`:                 {"<<", ">>", "<", ">", "ab", "\n", strings.Repeat("z", 70)},
		`(a|ab)(c|bcd)(d*)`:           {"a", "b", "c", "d", "ab", "abcd"},
		`[a-z]+-[0-9]+-x|foo`:         {"foo", "a", "-", "1", "-x", "ab-12-x", strings.Repeat("a", 64), strings.Repeat("1", 64)},
		`(é+x)|\p{Greek}{2,5}`:        {"é", "x", "αβ", "γ", "éx", "\xce", "\xb1", "\xc3"},
		`(?s).{20}end`:                {"end", "e", "0123456789", "\n", "é"},
		`\Astart|stop\z`:              {"start", "stop", "s", "st"},
		`[a-c]+(b[a-z]*!)?`:           {"a", "b", "c", "z", "!", strings.Repeat("abc", 30)},
		`token:[^ ]+( [0-9]+ [a-z])?`: {"token:", "abc", " 12 x", " 12", " ", strings.Repeat("t", 100)},
	}
	for detector, p := range detectors {
		for _, strategy := range []string{pii.StrategyRedact, pii.StrategyMask, pii.StrategyHash} {
			out = append(out, subject{detector + "/" + strategy, newDetector(t, strategy, detector, 64), p})
		}
	}
	return out
}

// plain is what stands between the pieces in any text.
func plain() []string {
	return []string{" ", "  ", "\n", ", ", "the ", "word", "é", "日本", "😀", "\xff", "\xe2\x82", "[", "]", "<", ">", "'", "=", "7"}
}

func draw(t *rapid.T, pieces []string) string {
	all := append(plain(), pieces...)
	all = append(all, pieces...)
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 0, 14).Draw(t, "text"), "")
}

type failer interface {
	Fatalf(format string, args ...any)
}

// requireStream writes chunks and checks that all that was emitted is right at every moment.
func requireStream(t failer, rule *pii.Rule, chunks ...string) {
	text := strings.Join(chunks, "")
	want, found, err := rule.Apply(text)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	s := pii.NewStream(rule)
	var got strings.Builder
	for _, c := range chunks {
		emit := s.Write(c)
		if utf8.ValidString(text) && !utf8.ValidString(emit) {
			t.Fatalf("%q emits a part of a rune: %q", chunks, emit)
		}
		got.WriteString(emit)
		if !strings.HasPrefix(want, got.String()) {
			t.Fatalf("%q emits %q, want %q", chunks, got.String(), want)
		}
	}
	got.WriteString(s.Flush())
	if got.String() != want || s.Found() != found {
		t.Fatalf("%q emits %q (%d), want %q (%d)", chunks, got.String(), s.Found(), want, found)
	}
}

func TestStreamSplitAnywhere(t *testing.T) {
	for _, s := range subjects(t) {
		for _, p := range s.pieces {
			for _, q := range []string{"", s.pieces[0], s.pieces[1]} {
				text := "to " + p + q + ". é " + p
				if len(text) > 400 {
					continue
				}
				for i := range len(text) + 1 {
					requireStream(t, s.rule, text[:i], text[i:])
				}
				requireStream(t, s.rule, strings.Split(text, "")...)
			}
		}
	}
}

func TestStreamSplitTwice(t *testing.T) {
	for _, s := range subjects(t) {
		text := s.pieces[0] + " " + s.pieces[1] + s.pieces[0]
		if len(text) > 60 {
			text = text[:60]
		}
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				requireStream(t, s.rule, text[:i], text[i:j], text[j:])
			}
		}
	}
}

func TestStreamInAnyChunks(t *testing.T) {
	for _, s := range subjects(t) {
		t.Run(s.name, rapid.MakeCheck(func(t *rapid.T) {
			text := draw(t, s.pieces)
			var chunks []string
			for len(text) > 0 {
				n := min(len(text), rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 300)).Draw(t, "n"))
				chunks, text = append(chunks, text[:n]), text[n:]
			}
			requireStream(t, s.rule, chunks...)
		}))
	}
}

func TestStreamEmitsAtOnce(t *testing.T) {
	card := newRule(t, "credit_card", "")
	cases := []struct {
		rule           *pii.Rule
		chunk, emitted string
	}{
		{newRule(t, "email", ""), "hello wor", "hello "},
		{newRule(t, "email", ""), "hello ", "hello "},
		{newRule(t, "email", ""), "joe@example.com,", "[REDACTED_EMAIL],"},
		{card, "in 2024", "in "},
		{card, "in 2024, 411", "in 2024, "},
		{card, "12345678901234567", "12345678901234567"},
		{newRule(t, "ip", ""), "use deadbee", "use "},
		{newRule(t, "mac_address", ""), "the zebra", "the zebra"},
		{newRule(t, "url", ""), "see http", "see "},
		{newRule(t, "url", ""), "see example. ", "see example. "},
		{newDetector(t, "", `sk-[a-z]{4}`, 0), "ask s", "ask "},
		{newDetector(t, "", `sk-[a-z]{4}`, 0), "ask sk-abcd ", "ask [REDACTED_SECRET] "},
		{newDetector(t, "", `sk-[a-z]{4}`, 0), "ask sk-1", "ask sk-1"},
	}
	for _, c := range cases {
		s := pii.NewStream(c.rule)
		require.Equal(t, c.emitted, s.Write(c.chunk), "%s: %q", c.rule.Type(), c.chunk)
	}
}

// A text without a break is not held back.
func TestStreamIsBounded(t *testing.T) {
	const size = 10 << 20
	runs := []string{"7", "a", "1:", "1.", "x.", "aa:", "@", "a@", "a@b.", "a@b", "/", "-", "4111 ", "https://", "https://a", "www.a", "a.b/", "sk-", "sk-a", "é", "ａ"}
	rules := map[string]*pii.Rule{"detector": newDetector(t, "", `sk-[a-z]+`, 0), "any": newDetector(t, "", `(?s)sk.*key`, 0)}
	for _, kind := range []string{"email", "credit_card", "ip", "mac_address", "url"} {
		rules[kind] = newRule(t, kind, "")
	}
	bounds := map[string]int{"email": 512, "credit_card": 64, "ip": 64, "mac_address": 64, "url": 2052, "detector": 256, "any": 256}
	for kind, r := range rules {
		for _, run := range runs {
			chunk := strings.Repeat(run, 4096/len(run))
			chunks := size / len(chunk) / 256
			if run == "7" {
				chunks *= 256
			}
			s := pii.NewStream(r)
			for range chunks {
				s.Write(chunk)
				require.LessOrEqual(t, s.Held(), bounds[kind], "%s: %q", kind, run)
			}
			s.Flush()
			require.Zero(t, s.Held())
		}
	}
}

func TestStreamBlocks(t *testing.T) {
	text := "I am joe@example.com, really"
	for i := range len(text) {
		s := pii.NewStream(newRule(t, "email", pii.StrategyBlock))
		got := s.Write(text[:i]) + s.Write(text[i:]) + s.Flush()
		require.Equal(t, "I am ", got)
		require.Equal(t, agent.CodeDenied, agent.CodeOf(s.Err()))
		require.NotContains(t, fmt.Sprint(s.Err()), "joe")
		require.Empty(t, s.Write("and more"))
	}
	s := pii.NewStream(newRule(t, "email", pii.StrategyBlock))
	require.Equal(t, "fine", s.Write("fi")+s.Write("ne")+s.Flush())
	require.NoError(t, s.Err())
}

func TestStreamCanBeUsedAgain(t *testing.T) {
	s := pii.NewStream(newDetector(t, "", `^a`, 0))
	require.Equal(t, "[REDACTED_SECRET]a", s.Write("aa")+s.Flush())
	require.Equal(t, "[REDACTED_SECRET]a", s.Write("aa")+s.Flush())
}
