package pii_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

func newRule(t testing.TB, kind, strategy string) *pii.Rule {
	t.Helper()
	r, err := pii.NewRule(pii.RuleConfig{Type: kind, Strategy: strategy})
	require.NoError(t, err)
	return r
}

func newDetector(t testing.TB, strategy, detector string, lookback int) *pii.Rule {
	t.Helper()
	r, err := pii.NewRule(pii.RuleConfig{Type: "secret", Strategy: strategy, Detector: detector, Lookback: lookback})
	require.NoError(t, err)
	return r
}

// In the cases, ‹ and › stand around what must be found.
func TestDetection(t *testing.T) {
	cases := map[string][]string{
		"email": {
			"‹joe@example.com›", "mail ‹joe.doe+tag@mail.eu.example.co.uk›, please", "<‹a_b%c-d@x-y.org›>", "联系‹alice@example.com›谢谢",
			"(‹joe@example.com›).", "‹joe@example.com›. Bye", "‹a@b.co›;‹c@d.co›", "mailto:‹joe@example.com›?subject=x", "‹a@b.com›@c.com",
			"‹user@example.xn--p1ai›", "‹user@xn--e1afmkfd.XN--P1AI›.", "‹user@example.xn--p1ai›-", "‹user@example.xn--fiqs8s›, ok", "user@example.xn--p1ai_x", "‹user@example.xn›--",
			"joe@localhost", "joe@example.c", "@example.com", "joe@ example.com", "joe at example.com", "a@b.com1", "x@y.com_z",
			"joe@example.123", "a@‹b@example.com›", "‹joe@example.co›.1", "“‹joe@example.com›”", "é‹joe@example.com›",
			strings.Repeat("x", 300-256) + "‹" + strings.Repeat("x", 256) + "@example.com›", "joe@" + strings.Repeat("x", 300) + ".com",
		},
		"credit_card": {
			"‹4111111111111111›", "card ‹4111 1111 1111 1111›.", "‹4111-1111-1111-1111›,", "‹5500-0000-0000-0004›", "‹378282246310005›", "‹3782 822463 10005›",
			"‹3782 8224 6310 005›", "‹30569309025904›", "Diners ‹3056-930902-5904›.", "‹3852 0000 0232 37›", "‹36006666333344›", "‹180000000000002›",
			"30569309025905", "70569309025905", "305693090259049",
			"no ‹4111111111111111›, ‹5500000000000004›", "1234 ‹4111 1111 1111 1111› 1", "‹4111\u00a01111\u00a01111\u00a01111›", "‹4111\u20111111\u20111111\u20111111›",
			"‹4111\n1111\n1111\n1111›", "编号‹4111111111111111›号",
			"4111111111111112", "411111111111111", "41111111111111111", "a4111111111111111", "4111111111111111x", "_4111111111111111",
			"4111  1111 1111 1111", "4111.1111.1111.1111", "1758300000000", "123456789012347", "4111 1111 1111", "4111 1111 1111 1112 and more",
		},
		"ip": {
			"‹192.168.0.1›", "at ‹10.0.0.1›:8080.", "‹1.2.3.4›/24", "‹255.255.255.255›", "from ‹1.2.3.4›.", "‹10.0.0.1›-‹10.0.0.9›", "http://‹10.1.2.3›/x",
			"...‹10.0.0.1›...", "‹10.0.0.1›:‹10.0.0.2›", "ip:‹8.8.8.8›", "地址‹8.8.8.8›。",
			"‹2001:db8::1›", "[‹2001:db8::1›]:443", "‹::1›", "‹fe80::1›%eth0", "‹2001:0db8:85a3:0000:0000:8a2e:0370:7334›.", "‹::ffff:192.0.2.1›", "net ‹2001:db8::›/32",
			"(‹fe80::1›)", "‹1::2:3›", "‹ABCD:ABCD:ABCD:ABCD:ABCD:ABCD:192.168.158.190›.", "addr:‹2001:db8::1›:",
			"ABCD:ABCD:ABCD:ABCD:ABCD:ABCD:192.168.158.190x", "ABCD:ABCD:ABCD:ABCD:ABCD:ABCD:192.168.158.190.5", "256.1.1.1", "1.2.3", "1.2.3.4.5", "v1.2.3.4", "1.2.3.4x", "01.02.03.04", "1.2.3.4_5", "12:34:56", "std::vector", "a::b", "face::cafe", "v[0]::1", "::", "00:1A:2B:3C:4D:5E",
			"1,234.56", "3.14",
		},
		"mac_address": {
			"‹00:1A:2B:3C:4D:5E›", "dev ‹00-1a-2b-3c-4d-5e›.", "[‹aa:bb:cc:dd:ee:ff›]", "地址‹aa:bb:cc:dd:ee:ff›", "‹aa:bb:cc:dd:ee:ff›:00", "(‹00-1A-2B-3C-4D-5E›,)",
			"‹001A.2B3C.4D5E›", "port ‹aabb.ccdd.eeff›.", "‹aabb.ccdd.eeff›, ‹0011.2233.4455›", "地址‹aabb.ccdd.eeff›",
			"00:1A:2B:3C:4D", "00:1A:2B:3C:4D:5G", "00:1A:2B:3C:4D:5E1", "x00:1A:2B:3C:4D:5E", "aabb.ccdd", "aabb.ccdd.eefg", "aabb.ccdd.eeff0", "1.aabb.ccdd.eeff", "aabb.ccdd.eeff.0011", "001A2B3C4D5E", "12:34:56", "0:1:2:3:4:5",
		},
		"url": {
			"see ‹https://example.com/a?b=c#d›.", "‹http://x›", "‹HTTPS://Example.COM/A›!", "(‹https://example.com/a_(b)›)", "(‹https://example.com›)", "“‹https://example.com/a›”",
			"<‹https://user:pw@example.com:8443/p›>", "‹www.example.com›, ok", "‹www.example.com/x›.", "‹example.com/path›", "go to ‹sub.example.co.uk/p/q?r=1› now",
			"\"‹https://example.com/x›\"}", "ftp://‹example.com/x›", "‹192.168.0.1/admin›", "x‹https://a.b/c›", "**‹https://example.com›**", "见‹https://example.com/路径›。后面",
			"‹https://a.b/c›\u3000d", "[t](‹https://example.com/x›)", "‹https://example.com/?u=https://b.c›", "‹xn--bcher-kva.example.com/x›",
			"example.com", "e.g. this", "and/or", "1.5/2", "lib/python3.11/site", "https://", "https:///x", "http//x.y", "www.", "www", "a.b", "x.y.z", "a..b", "https://.", "-/-", "v1.2.3/x", "foo_example.com/x",
		},
	}
	for kind, texts := range cases {
		r := newRule(t, kind, "")
		label := "[REDACTED_" + strings.ToUpper(kind) + "]"
		for _, c := range texts {
			text, want := strings.NewReplacer("‹", "", "›", "").Replace(c), c
			for strings.Contains(want, "‹") {
				before, after, _ := strings.Cut(want, "‹")
				_, after, _ = strings.Cut(after, "›")
				want = before + label + after
			}
			got, found, err := r.Apply(text)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s in %q", kind, text)
			require.Equal(t, strings.Count(c, "‹"), found)
		}
	}
}

func TestMask(t *testing.T) {
	cases := []struct{ kind, value, want string }{
		{"email", "joe@mail.example.com", "joe@****.com"},
		{"credit_card", "4111111111111111", "************1111"},
		{"credit_card", "4111-1111-1111-1111", "****-****-****-1111"},
		{"credit_card", "5500 0000 0000 0004", "**** **** **** 0004"},
		{"credit_card", "378282246310005", "************0005"},
		{"ip", "192.168.1.17", "*.*.*.17"},
		{"ip", "2001:db8::1", "****"},
		{"ip", "::ffff:192.0.2.1", "****"},
		{"mac_address", "00:1A:2B:3C:4D:5E", "**:**:**:**:**:5E"},
		{"mac_address", "00-1A-2B-3C-4D-5E", "**-**-**-**-**-5E"},
		{"mac_address", "001A.2B3C.4D5E", "****.****.**5E"},
		{"url", "https://example.com/x", "[MASKED_URL]"},
	}
	for _, c := range cases {
		got, found, err := newRule(t, c.kind, pii.StrategyMask).Apply("a " + c.value + " b")
		require.NoError(t, err)
		require.Equal(t, 1, found)
		require.Equal(t, "a "+c.want+" b", got)
	}
	r := newDetector(t, pii.StrategyMask, `sk-[a-zé]+`, 0)
	got, _, err := r.Apply("sk-a sk-ab sk-abécd")
	require.NoError(t, err)
	require.Equal(t, "**** ****k-ab ****bécd", got)
	// A detector may give a built-in type other values.
	for kind, want := range map[string]string{"email": "****", "credit_card": "****", "ip": "****", "mac_address": "**-**-**-**-**-12", "url": "[MASKED_URL]"} {
		r, err := pii.NewRule(pii.RuleConfig{Type: kind, Strategy: pii.StrategyMask, Detector: `ID\d+`})
		require.NoError(t, err)
		got, _, err := r.Apply("ID12")
		require.NoError(t, err)
		require.Equal(t, want, got, kind)
	}
}

func TestHash(t *testing.T) {
	sum := sha256.Sum256([]byte("joe@example.com"))
	want := "<email_hash:" + hex.EncodeToString(sum[:])[:8] + ">"
	got, found, err := newRule(t, "email", pii.StrategyHash).Apply("joe@example.com, joe@example.com")
	require.NoError(t, err)
	require.Equal(t, 2, found)
	require.Equal(t, want+", "+want, got)
}

func TestBlockNamesTheTypeOnly(t *testing.T) {
	got, found, err := newRule(t, "email", pii.StrategyBlock).Apply("joe@example.com and ann@example.org")
	require.Equal(t, 2, found)
	require.Empty(t, got)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.EqualError(t, err, "detected 2 instance(s) of email in text content")
	got, _, err = newRule(t, "email", pii.StrategyBlock).Apply("nobody")
	require.NoError(t, err)
	require.Equal(t, "nobody", got)
}

func TestRulesInOrder(t *testing.T) {
	text := "https://example.com/?to=joe@example.com or ann@example.com"
	url, email := newRule(t, "url", ""), newRule(t, "email", "")
	apply := func(rules ...*pii.Rule) string {
		out := text
		for _, r := range rules {
			out, _, _ = r.Apply(out)
		}
		return out
	}
	require.Equal(t, "[REDACTED_URL] or [REDACTED_EMAIL]", apply(url, email))
	require.Equal(t, "[REDACTED_URL][REDACTED_EMAIL] or [REDACTED_EMAIL]", apply(email, url))
}

func TestLongValues(t *testing.T) {
	long := strings.Repeat("x", 5000)
	sum := sha256.Sum256([]byte("https://example.com/" + long + "end"))
	for strategy, want := range map[string]string{
		pii.StrategyRedact: "a [REDACTED_URL] b", pii.StrategyMask: "a [MASKED_URL] b",
		pii.StrategyHash: "a <url_hash:" + hex.EncodeToString(sum[:])[:8] + "> b",
	} {
		got, found, err := newRule(t, "url", strategy).Apply("a https://example.com/" + long + "end b")
		require.NoError(t, err)
		require.Equal(t, 1, found)
		require.Equal(t, want, got)
	}
	for detector, cases := range map[string][2]string{
		`sk-[a-z]+`:        {"a sk-" + long + " b", "a ****xxxx b"},
		`sk-[a-z]+( end)?`: {"a sk-" + long + " e b", "a ****xx e b"}, // whether "end" comes is known too late
		`sk-[a-z]+?`:       {"a sk-" + long + " b", "a ****" + long[1:] + " b"},
		`sk-[a-z]+!`:       {"a sk-" + long + "! b", "a sk-" + long + "! b"}, // nothing matches within the bound
		`[a-z]+-x|foo`:     {"aaafoo" + long, "aaa****" + long},              // what began earlier is given up at the bound
		`(?s)-.*`:          {"a sk-" + long + " b", "a sk****xx b"},
	} {
		got, _, err := newDetector(t, pii.StrategyMask, detector, 64).Apply(cases[0])
		require.NoError(t, err)
		require.Equal(t, cases[1], got, detector)
	}
}

func TestNewRuleRefuses(t *testing.T) {
	for field, configs := range map[string][]pii.RuleConfig{
		"pii_type": {{}, {Type: "Ünï", Detector: "x"}, {Type: "1a", Detector: "x"}, {Type: strings.Repeat("a", 65), Detector: "x"}, {Type: "a b", Detector: "x"}},
		"strategy": {{Type: "email", Strategy: "hide"}},
		"detector": {
			{Type: "ssn"},
			{Type: "ssn", Detector: "("},
			{Type: "ssn", Detector: "(?=x)"},
			{Type: "ssn", Detector: "x*"},
			{Type: "ssn", Detector: `\b`},
			{Type: "ssn", Detector: "^|x"},
			{Type: "ssn", Detector: "(x|y?)"},
			{Type: "ssn", Detector: strings.Repeat("x", 1001)},
			{Type: "ssn", Detector: strings.Repeat("[a-z]{1000}", 20)},
		},
		"stream_lookback": {
			{Type: "ssn", Detector: "x+", Lookback: 15},
			{Type: "ssn", Detector: "x+", Lookback: 5000},
			{Type: "ssn", Detector: "x+", Lookback: -1},
			{Type: "email", Lookback: 128},
		},
	} {
		for _, c := range configs {
			_, err := pii.NewRule(c)
			var e *agent.Error
			require.ErrorAs(t, err, &e, "%+v", c)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, field, e.Field, "%+v", c)
		}
	}
}

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
