package telegram

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"
)

// tagged returns a piece as text with its entities as tags, such as <b>.
func tagged(p piece) string {
	text := utf16.Encode([]rune(p.text))
	tags := map[int]string{} // by offset
	for _, e := range p.entities {
		tags[e.Offset] += "<" + string(e.Type[0]) + e.URL + e.Language + ">"
	}
	for _, e := range slices.Backward(p.entities) {
		tags[e.Offset+e.Length] = "</>" + tags[e.Offset+e.Length]
	}
	var b strings.Builder
	start := 0
	for i := range len(text) + 1 {
		if tag, ok := tags[i]; ok {
			b.WriteString(string(utf16.Decode(text[start:i])) + tag)
			start = i
		}
	}
	b.WriteString(string(utf16.Decode(text[start:])))
	return b.String()
}

func TestRender(t *testing.T) {
	for markdown, want := range map[string]string{
		"plain":                           "plain",
		"a **b** c":                       "a <b>b</> c",
		"*i* and _i_ and __b__ and ~~s~~": "<i>i</> and <i>i</> and <b>b</> and <s>s</>",
		"**b *bi* b**":                    "<b>b <i>bi</> b</>",
		"🛫 **b** 🛫":                       "🛫 <b>b</> 🛫",
		"snake_case_name and a*b*c 2 * 3": "snake_case_name and a<i>b</>c 2 * 3",
		"`x**y**` ``a`b``":                "<c>x**y**</> <c>a`b</>",
		"[go](https://go.dev/a_b_c)":      "<thttps://go.dev/a_b_c>go</>",
		"[x](javascript:alert) [y](a b)":  "[x](javascript:alert) [y](a b)",
		"# Head\ntext":                    "<b>Head</>\ntext",
		"- one\n  * two\n1. three":        "• one\n  • two\n1. three",
		"```go\nx := **1**\n```\nafter":   "<pgo>x := **1**</>\nafter",
		"```\nnot closed **yet**":         "<p>not closed **yet**</>",
		"| a | b |\n|---|---|\n| 1 | 2 |": "<p>| a | b |\n|---|---|\n| 1 | 2 |</>",
		`\*not\* \_this\_ \\`:             `*not* _this_ \`,
		"**not closed":                    "**not closed",
		"** no ** * no *":                 "** no ** * no *",
		"a\r\nb\x00\x1b[31mc\xff":         "a\nb[31mc\uFFFD",
		"":                                "",
		"***both***":                      "<b><i>both</></>",
		"*a **b** c*":                     "<i>a <b>b</> c</>",
		"<b>&amp;</b>":                    "<b>&amp;</b>",
		"2*3*4 = 24, x_1_2":               "2<i>3</>4 = 24, x_1_2",
		"**Übung** äöü":                   "<b>Übung</> äöü",
		"~~~\nx\n~~~":                     "<p>x</>",
	} {
		require.Equal(t, want, tagged(render(markdown)), "%q", markdown)
	}
}

func TestSplit(t *testing.T) {
	texts := func(text string, maxUnits int) (out []string) {
		for _, p := range split(plainText(text), maxUnits) {
			out = append(out, p.text)
		}
		return out
	}
	require.Equal(t, []string{"one two", "three"}, texts("one two three", 8))
	require.Equal(t, []string{"first par", "second par"}, texts("first par\n\nsecond par", 14))
	require.Equal(t, []string{"aaaa", "aaaa", "aa"}, texts("aaaaaaaaaa", 4))
	require.Equal(t, []string{"🛫🛫", "🛫"}, texts("🛫🛫🛫", 5))
	require.Empty(t, texts(" \n\u200b\u2060 ", 5))
	require.Equal(t, []string{"x"}, texts("  x  ", 5))
	require.Equal(t, []string{"ab", "e\u0301c", "d"}, texts("abe\u0301cd", 3), "an accent stays with its letter")
	require.Equal(t, []string{"abc", "🏳️\u200d🌈"}, texts("abc🏳️\u200d🌈", 7), "a flag stays whole")

	bold := split(render("**"+strings.Repeat("word ", 20)+"end**"), 50)
	for _, p := range bold {
		require.Equal(t, []models.MessageEntity{{Type: models.MessageEntityTypeBold, Length: units(p.text)}}, p.entities)
	}
	many := split(render(strings.Repeat("**b** ", 300)), maxMessage)
	require.Len(t, many, 1)
	require.Len(t, many[0].entities, maxEntities)
}

func TestClipUnits(t *testing.T) {
	require.Equal(t, "abc", clipUnits("abc", 3))
	require.Equal(t, "ab…", clipUnits("abcd", 3))
	require.Equal(t, "🛫…", clipUnits("🛫🛫🛫", 4))
	require.Equal(t, "🛫🛫", clipUnits("🛫🛫", 4))
	require.Equal(t, "a…", clipUnits("a🛫", 2))
	require.Empty(t, clipUnits("", 4))
}

// visibleText returns the visible characters of a text.
func visibleText(text string) string {
	return strings.Map(func(r rune) rune {
		if isBlank(r) {
			return -1
		}
		return r
	}, text)
}

func FuzzRenderAndSplit(f *testing.F) {
	for _, seed := range []string{
		"a **b** _c_ `d` [e](https://f)", "```go\nx\n```", "# h\n- i", "🏳️‍🌈👩‍👩‍👧‍👦e\u0301", strings.Repeat("*a_", 100), "***", "|x|\n|y|", "\\*", "[[](http://x)", "``` ```", "**`**`",
		"\u200b\u2060", "[a](http://b)**c**", strings.Repeat("`", 50),
	} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, markdown string, maxUnits int) {
		if len(markdown) > 20_000 {
			return
		}
		maxUnits = max(2, maxUnits%5000) // a character may take two
		p := render(markdown)
		length := units(p.text)
		checkEntities(t, p, length)
		parts := split(p, maxUnits)
		var joined strings.Builder
		for _, part := range parts {
			n := units(part.text)
			if n > maxUnits || n == 0 || !utf8.ValidString(part.text) || visibleText(part.text) == "" {
				t.Fatalf("part %q of %d", part.text, n)
			}
			checkEntities(t, part, n)
			joined.WriteString(part.text)
		}
		if visibleText(joined.String()) != visibleText(p.text) {
			t.Fatalf("%q became %q", p.text, joined.String())
		}
		if n := units(clipUnits(markdown, maxUnits)); utf8.ValidString(markdown) && n > maxUnits {
			t.Fatalf("clipped to %d units", n)
		}
	})
}

// checkEntities fails if an entity is out of bounds, or if two entities overlap and neither is within the other.
func checkEntities(t *testing.T, p piece, length int) {
	t.Helper()
	for i, e := range p.entities {
		if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > length {
			t.Fatalf("entity %+v of %q", e, p.text)
		}
		for _, o := range p.entities[i+1 : min(len(p.entities), i+50)] {
			if o.Offset < e.Offset+e.Length && o.Offset+o.Length > e.Offset+e.Length {
				t.Fatalf("entities %+v and %+v of %q cross", e, o, p.text)
			}
		}
	}
}

// A model must not be able to write Markdown that takes long to render.
func TestRenderTakesLinearTime(t *testing.T) {
	for _, part := range []string{"*a ", "**", "_a", "[", "`a``b", "[a](", "~~a*_", "\\"} {
		start := time.Now()
		render(strings.Repeat(part, maxGrowingBytes/len(part)))
		require.Less(t, time.Since(start), 10*time.Second, part)
	}
}
