package offline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenWord tokenKind = iota
	tokenNumber
	tokenString // quoted
	tokenURL
	tokenRef      // cas://… and artifact://…
	tokenOperator // < <= > >= = !=
	tokenArrow    // → or ->
	tokenComma    // , ; and the line's end
	tokenOpen     // (
	tokenClose    // )
)

// token is a piece of a prompt. lower is what the grammar compares; text is as written, quotes, currency and thousands removed.
type token struct {
	kind  tokenKind
	text  string
	lower string
	from  int // where it begins in the prompt, in bytes
}

// maxPrompt and maxTokens bound what is parsed of a prompt; the rest is passed over.
const (
	maxPrompt = 16 << 10
	maxTokens = 2000
)

// lex splits a prompt that is no longer than maxPrompt. It knows no errors: what it cannot read is a word.
func lex(s string) []token {
	var out []token
	for at := 0; at < len(s) && len(out) < maxTokens; {
		t, n := next(s[at:])
		if n > 0 && t.text != "" {
			t.lower, t.from = strings.ToLower(t.text), at
			out = append(out, t)
		}
		at += max(n, 1)
	}
	return out
}

// next reads one token and its length in bytes; an empty text is blank.
func next(s string) (token, int) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == '\n' || r == ',' || r == ';':
		return token{kind: tokenComma, text: ","}, size
	case unicode.IsSpace(r):
		return token{}, size
	case r == '(' || r == '[':
		return token{kind: tokenOpen, text: "("}, size
	case r == ')' || r == ']':
		return token{kind: tokenClose, text: ")"}, size
	case r == '→':
		return token{kind: tokenArrow, text: "->"}, size
	case strings.HasPrefix(s, "->"):
		return token{kind: tokenArrow, text: "->"}, 2
	case strings.ContainsRune("<>=!≤≥≠", r):
		return comparisonSign(s, r, size)
	case r == '"' || r == '\'' || r == '“' || r == '`':
		return quoted(s, r, size)
	case strings.HasPrefix(strings.ToLower(s[:min(len(s), 8)]), "http://"), strings.HasPrefix(strings.ToLower(s[:min(len(s), 8)]), "https://"):
		n := end(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '<' || r == '>' })
		text := strings.TrimRight(s[:n], ".,;!?)")
		return token{kind: tokenURL, text: text}, max(len(text), size)
	}
	if strings.HasPrefix(s, "cas://") || strings.HasPrefix(s, "artifact://") {
		n := end(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;()[]<>\"'`", r) })
		text := strings.TrimRight(s[:n], ".:!?")
		return token{kind: tokenRef, text: text}, len(text)
	}
	if n, text := number(s); n > 0 {
		return token{kind: tokenNumber, text: text}, n
	}
	n := end(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;()[]<>=!≤≥≠→\"“”`", r)
	})
	if arrow := strings.Index(s[:n], "->"); arrow > 0 {
		n = arrow
	}
	text := strings.TrimRight(s[:n], ".:?")
	if n == 0 {
		n = size
	}
	return token{kind: tokenWord, text: text}, n
}

// end returns the length of the part of s before the first rune that stops it.
func end(s string, stops func(rune) bool) int {
	if i := strings.IndexFunc(s, stops); i >= 0 {
		return i
	}
	return len(s)
}

func comparisonSign(s string, r rune, size int) (token, int) {
	plain := map[rune]string{'≤': "<=", '≥': ">=", '≠': "!="}[r]
	switch {
	case plain != "":
		return token{kind: tokenOperator, text: plain}, size
	case strings.HasPrefix(s, "=="):
		return token{kind: tokenOperator, text: "="}, 2
	case strings.HasPrefix(s, "<>"):
		return token{kind: tokenOperator, text: "!="}, 2
	case len(s) > 1 && s[1] == '=':
		return token{kind: tokenOperator, text: s[:2]}, 2
	case r == '!':
		return token{}, size
	default:
		return token{kind: tokenOperator, text: string(r)}, size
	}
}

// quoted reads to the closing quote; without one, the quote is passed over. An apostrophe counts only where a word could begin, which
// is where the lexer asks.
func quoted(s string, open rune, size int) (token, int) {
	closing := string(open)
	if open == '“' {
		closing = "”"
	}
	i := strings.Index(s[size:], closing)
	if i <= 0 {
		return token{}, size
	}
	return token{kind: tokenString, text: s[size : size+i]}, size + i + len(closing)
}

// number reads $1,234.50, -3 or 20%; its text is a JSON number. It is no number when a letter follows, as in 3rd.
func number(s string) (int, string) {
	i := 0
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, i = "-", 1
	}
	for _, currency := range []string{"$", "€", "£"} {
		if strings.HasPrefix(s[i:], currency) {
			i += len(currency)
			break
		}
	}
	from := i
	var digits strings.Builder
	point := false
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits.WriteByte(c)
		case c == ',' && !point && thousands(s[i+1:]) && i > from:
		case c == '.' && !point && i > from && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			digits.WriteByte(c)
			point = true
		default:
			if r, _ := utf8.DecodeRuneInString(s[i:]); unicode.IsLetter(r) || r == '_' || r == '-' {
				return 0, ""
			}
			return finish(i, sign, digits.String())
		}
	}
	return finish(i, sign, digits.String())
}

func finish(n int, sign, digits string) (int, string) {
	if digits == "" {
		return 0, ""
	}
	whole, fraction, pointed := strings.Cut(digits, ".")
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if pointed {
		whole += "." + fraction
	}
	return n, sign + whole
}

// thousands reports whether s starts with exactly three digits.
func thousands(s string) bool {
	digit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	return digit(0) && digit(1) && digit(2) && !digit(3)
}
