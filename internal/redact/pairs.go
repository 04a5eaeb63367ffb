package redact

import (
	"slices"
	"strings"
)

// secretBehindSeparator finds the secret behind a separator, = or : or their escapes in a URL: the value of a pair, the password of a URL,
// or the second half of a Telegram token. end is 0 if there is none.
func secretBehindSeparator(text string, at, width int) (start, end int) {
	if strings.HasPrefix(text[at:], "://") {
		return urlPassword(text, at)
	}
	if start, end = telegramKey(text, at, at+width); end > 0 {
		return start, end
	}
	name := nameBefore(text, at)
	if len(name) < 3 {
		return 0, 0
	}
	if secrecy := NameSecrecy(name); secrecy != Public {
		return pairValue(text, at, at+width, secrecy, name)
	}
	return 0, 0
}

// nameBefore returns the name before a separator, without quotes.
func nameBefore(text string, separator int) string {
	end := separator
	for end > 0 && separator-end < 4 && strings.IndexByte(" \"'\\]", text[end-1]) >= 0 {
		end--
	}
	start := end
	for start > 0 && end-start < maxNameLength && (isTokenChar(text[start-1]) || text[start-1] == '.') {
		start--
	}
	return text[start:end]
}

// telegramKey finds the key of NNNNNNNN:key, a bot's token. The number is public.
func telegramKey(text string, separator, keyStart int) (start, end int) {
	first := separator
	for first > 0 && isDigit(text[first-1]) {
		first--
	}
	if separator-first < 6 {
		return 0, 0
	}
	if end = runEnd(text, keyStart, isTokenChar); end-keyStart < 30 {
		return 0, 0
	}
	return keyStart, end
}

// urlPassword finds the password of a URL. Without one it returns the user name, which may be a token.
func urlPassword(text string, colonSlashSlash int) (start, end int) {
	if colonSlashSlash == 0 || !isAlnum(text[colonSlashSlash-1]) {
		return 0, 0
	}
	start = colonSlashSlash + len("://")
	authority := start
	for authority < len(text) && !isValueEnd(text, authority) && strings.IndexByte("/?#", text[authority]) < 0 {
		authority++
	}
	sign := strings.LastIndexByte(text[start:authority], '@')
	colon := strings.IndexByte(text[start:authority], ':')
	if sign < 0 && colon >= 0 && colon+1 < authority-start && !isDigit(text[start+colon+1]) && text[start] != '[' {
		// No port follows the colon, so it is a password with an unescaped slash.
		rest := window(text, start, 512)
		sign = strings.LastIndexByte(text[start:runEnd(rest, start, func(c byte) bool { return c > ' ' && c != '"' && c != '\'' })], '@')
	}
	if sign < 0 {
		return 0, 0
	}
	if colon >= 0 && colon < sign {
		return start + colon + 1, start + sign
	}
	return start, start + sign
}

// isValueEnd reports whether a value ends at a place: at white space, a quote, or their escapes in JSON.
func isValueEnd(text string, at int) bool {
	switch c := text[at]; c {
	case '"', '\'', '`':
		return true
	case '\\':
		return at+1 < len(text) && strings.IndexByte("nrt\"'u", text[at+1]) >= 0
	default:
		return c <= ' '
	}
}

// pairValue finds the value of a pair whose name is a secret's. Where the end of a value is ambiguous, it returns too much.
func pairValue(text string, separator, afterSeparator int, secrecy Secrecy, name string) (start, end int) {
	start = runEnd(text, afterSeparator, func(c byte) bool { return c == ' ' || c == '\t' || c == '>' || c == '=' })
	if start == len(text) {
		return 0, 0
	}
	slashes := runEnd(text, start, func(c byte) bool { return c == '\\' }) - start
	if q := start + slashes; q < len(text) && strings.IndexByte("\"'`", text[q]) >= 0 {
		return q + 1, closingQuote(text, q, slashes)
	}
	if text[start] == '[' && !strings.HasPrefix(text[start:], Placeholder) { // a list, as http.Header prints
		end = strings.IndexAny(text[start:], "]\n")
		if end < 0 || text[start+end] == '\n' {
			return start, unquotedEnd(text, start)
		}
		return start, start + end + 1
	}
	if strings.HasSuffix(strings.ToLower(name), "cookie") {
		end = start
		for end < len(text) && (text[end] == ' ' || !isValueEnd(text, end)) {
			end++
		}
		return start, end
	}
	end = unquotedEnd(text, start)
	for isAuthScheme(text[start:end]) {
		next := authValueStart(text, end)
		if next == 0 {
			break
		}
		end = unquotedEnd(text, next)
	}
	value := text[start:end]
	isReason := text[separator] == ':' && start > afterSeparator && end < len(text) && isErrorWord(value)
	if isLiteral(value) || secrecy == SecretUnlessNumber && isNumber(value) || isReason {
		return 0, 0
	}
	return start, end
}

// closingQuote returns where the quote at a place is closed, or the end of the text. In JSON within a string, quotes have backslashes
// before them, and quotes within the value have more.
func closingQuote(text string, quote, slashes int) int {
	for i := quote + 1; i < len(text); i++ {
		if text[i] != text[quote] {
			continue
		}
		n := 0
		for text[i-1-n] == '\\' {
			n++
		}
		if slashes == 0 && n%2 == 0 {
			return i
		}
		if slashes > 0 && n <= slashes {
			return i - n
		}
	}
	return len(text)
}

// unquotedEnd returns where a value without quotes ends.
func unquotedEnd(text string, start int) int {
	const punctuation = ",;)}]>."
	end := start
	for end < len(text) && !isValueEnd(text, end) && text[end] != '&' && !strings.HasPrefix(text[end:], "%26") {
		end++
	}
	if rest, ok := strings.CutPrefix(text[start:end], Placeholder); ok && strings.Trim(rest, punctuation) == "" {
		return start + len(Placeholder)
	}
	return start + len(strings.TrimRight(text[start:end], punctuation))
}

func isAuthScheme(word string) bool {
	schemes := []string{"bearer", "basic", "digest", "token", "apikey", "bot", "negotiate", "aws4-hmac-sha256"}
	return slices.Contains(schemes, strings.ToLower(word))
}

func isLiteral(word string) bool {
	return slices.Contains([]string{"", "null", "nil", "<nil>", "true", "false"}, word)
}

func isNumber(word string) bool { return strings.Trim(word, "0123456789.eE+-") == "" }

// isErrorWord reports whether a word begins the reason of an error, as in "api_key: is empty".
func isErrorWord(word string) bool {
	return slices.Contains([]string{
		"is", "are", "was", "has", "have", "holds", "differs", "must", "may", "cannot", "want", "wants", "needs", "no", "not", "too", "the", "a", "an",
		"missing", "malformed", "unknown", "invalid", "expired", "empty", "required", "there", "this", "give", "unexpected", "expected",
	}, word)
}
