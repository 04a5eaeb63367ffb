package logs

import "strings"

// separated finds the secret behind a separator, = or : and how a URL writes them: the value of a pair, the password of a URL, the
// second half of a Telegram token. end is 0 when there is none.
func separated(text string, at, width int) (start, end int) {
	if strings.HasPrefix(text[at:], "://") {
		return userInfo(text, at)
	}
	if start, end = telegram(text, at, at+width); end > 0 {
		return start, end
	}
	name := nameBefore(text, at)
	if len(name) < 3 {
		return 0, 0
	}
	if n := nameOf(name); n != public {
		return value(text, at, at+width, n, name)
	}
	return 0, 0
}

// nameBefore is the name that a separator stands behind, without quotes.
func nameBefore(text string, at int) string {
	end := at
	for end > 0 && at-end < 4 && (text[end-1] == ' ' || text[end-1] == '"' || text[end-1] == '\'' || text[end-1] == '\\' || text[end-1] == ']') {
		end--
	}
	start := end
	for start > 0 && end-start < longestName && (isToken(text[start-1]) || text[start-1] == '.') {
		start--
	}
	return text[start:end]
}

// telegram finds NNNNNNNN:key, the token of a bot; the number is the bot's and known to all.
func telegram(text string, at, behind int) (start, end int) {
	first := at
	for first > 0 && isDigit(text[first-1]) {
		first--
	}
	if at-first < 6 {
		return 0, 0
	}
	if end = run(text, behind, isToken); end-behind < 30 {
		return 0, 0
	}
	return behind, end
}

// userInfo finds the password of a URL, or all that is before the @ where there is no password beside a name: it may be a token.
func userInfo(text string, at int) (start, end int) {
	if at == 0 || !isAlnum(text[at-1]) {
		return 0, 0
	}
	start = at + len("://")
	authority := start
	for authority < len(text) && !isGap(text, authority) && strings.IndexByte("/?#", text[authority]) < 0 {
		authority++
	}
	sign := strings.LastIndexByte(text[start:authority], '@')
	colon := strings.IndexByte(text[start:authority], ':')
	if sign < 0 && colon >= 0 && colon+1 < authority-start && !isDigit(text[start+colon+1]) && text[start] != '[' {
		// No port: a password with a slash in it, that should have been escaped.
		sign = strings.LastIndexByte(text[start:run(far(text, start, 512), start, func(c byte) bool { return c > ' ' && c != '"' && c != '\'' })], '@')
	}
	if sign < 0 {
		return 0, 0
	}
	if colon >= 0 && colon < sign {
		return start + colon + 1, start + sign
	}
	return start, start + sign
}

// isGap reports whether a text's value ends at a place: white space, a quote, or how JSON writes them.
func isGap(text string, at int) bool {
	switch c := text[at]; c {
	case '"', '\'', '`':
		return true
	case '\\':
		return at+1 < len(text) && strings.IndexByte("nrt\"'u", text[at+1]) >= 0
	default:
		return c <= ' '
	}
}

// value finds the value of a pair whose name is a secret's. It takes too much rather than too little: where it ends cannot be told.
func value(text string, at, behind int, n naming, name string) (start, end int) {
	start = run(text, behind, func(c byte) bool { return c == ' ' || c == '\t' || c == '>' || c == '=' })
	if start == len(text) {
		return 0, 0
	}
	slashes := run(text, start, func(c byte) bool { return c == '\\' }) - start
	if q := start + slashes; q < len(text) && strings.IndexByte("\"'`", text[q]) >= 0 {
		return q + 1, closing(text, q, slashes)
	}
	if text[start] == '[' && !strings.HasPrefix(text[start:], redacted) { // a list, as http.Header prints
		end = strings.IndexAny(text[start:], "]\n")
		if end < 0 || text[start+end] == '\n' {
			return start, unquoted(text, start)
		}
		return start, start + end + 1
	}
	if ends([]byte(strings.ToLower(name)), "cookie") {
		end = start
		for end < len(text) && (text[end] == ' ' || !isGap(text, end)) {
			end++
		}
		return start, end
	}
	end = unquoted(text, start)
	for isScheme(text[start:end]) {
		next := after(text, end)
		if next == 0 {
			break
		}
		end = unquoted(text, next)
	}
	if isLiteral(text[start:end]) || n == plural && isNumber(text[start:end]) || text[at] == ':' && isProse(text, behind, start, end) {
		return 0, 0
	}
	return start, end
}

// closing is where the quote at a place is closed, or the end of the text. In JSON within a string quotes have backslashes before them,
// those within the value more.
func closing(text string, at, slashes int) int {
	for i := at + 1; i < len(text); i++ {
		if text[i] != text[at] {
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

// unquoted is where a value without quotes ends.
func unquoted(text string, start int) int {
	end := start
	for end < len(text) && !isGap(text, end) && text[end] != '&' && !strings.HasPrefix(text[end:], "%26") {
		end++
	}
	if strings.HasPrefix(text[start:end], redacted) && strings.Trim(text[start+len(redacted):end], ",;)}]>.") == "" {
		return start + len(redacted)
	}
	for end > start && strings.IndexByte(",;)}]>.", text[end-1]) >= 0 {
		end--
	}
	return end
}

func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "digest", "token", "apikey", "bot", "negotiate", "aws4-hmac-sha256":
		return true
	default:
		return false
	}
}

func isLiteral(word string) bool {
	switch word {
	case "", "null", "nil", "<nil>", "true", "false":
		return true
	default:
		return false
	}
}

func isNumber(word string) bool { return strings.Trim(word, "0123456789.eE+-") == "" }

// isProse tells the reason of an error, "api_key: is empty", from a value.
func isProse(text string, behind, start, end int) bool {
	if start == behind || end == len(text) {
		return false
	}
	switch text[start:end] {
	case "is", "are", "was", "has", "have", "holds", "differs", "must", "may", "cannot", "want", "wants", "needs", "no", "not", "too", "the", "a", "an",
		"missing", "malformed", "unknown", "invalid", "expired", "empty", "required", "there", "this", "give", "unexpected", "expected":
		return true
	default:
		return false
	}
}
