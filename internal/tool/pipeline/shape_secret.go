package pipeline

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Secrets belong in auth profiles. If a model writes one into a pipeline, the pipeline is not promoted, so that the secret reaches no
// prompt. These patterns match more names and values than package redact, because a miss would show a secret to other agents.
var (
	// secretPart matches anywhere in the name of a secret; secretWord matches one of its words.
	secretPart = regexp.MustCompile(`key|token|secret|passw|pwd|credential|private|session|signature|cookie|jwt|appid|oauth`)
	secretWord = regexp.MustCompile(`^(sid|pass|pin|otp|sig|auth|authn|authz|auth[a-np-z][a-z]*|authori[sz][a-z]*)$`)

	// issuedSecret matches the prefixes that issuers give their secrets.
	issuedSecret = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?:` +
		`(?:sk-|rk-|[srp]k_(?:live|test)_|rk_|gh[opusr]_|github_pat_|glpat-|xox[a-z]-)[A-Za-z0-9_-]{6,}|` +
		`A(?:KIA|SIA)[A-Z0-9]{8,}|AIza[A-Za-z0-9_-]{10,}|ya29\.[A-Za-z0-9_-]{6,}|eyJ[A-Za-z0-9_-]{3,}\.[A-Za-z0-9_.-]{3,}|` +
		`bot[0-9]+:[A-Za-z0-9_-]{6,}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{6,})`)
	longToken = regexp.MustCompile(`[A-Za-z0-9_-]{24,}`)
	uuid      = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	reference = regexp.MustCompile(`^(cas|artifact)://[A-Za-z0-9/:@._-]*$`)
)

// isSecretName reports whether the name of a param is typical of secrets: apiKey, access_token2, sid.
func isSecretName(name string) bool {
	words := strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return ' '
		}
		return unicode.ToLower(r)
	}, splitCamelCase(name)))
	joined := strings.Join(words, "")
	if joined == "code" || secretPart.MatchString(strings.ReplaceAll(joined, "keyword", "")) {
		return true
	}
	return slices.ContainsFunc(words, secretWord.MatchString)
}

// splitCamelCase puts a space between the words of camelCase.
func splitCamelCase(name string) string {
	var b strings.Builder
	previous := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		previous = r
	}
	return b.String()
}

// hasSecret reports whether the name of a param or any text of a pipeline looks like a secret.
func (d document) hasSecret() bool {
	for i := range d {
		var params map[string]json.RawMessage
		if raw, ok := d[i]["params"]; ok && json.Unmarshal(raw, &params) != nil {
			return true
		}
		for name := range params {
			if isSecretName(name) {
				return true
			}
		}
		for _, raw := range d[i] {
			var v any
			if json.Unmarshal(raw, &v) != nil || containsSecret(v) {
				return true
			}
		}
	}
	return false
}

// containsSecret reports whether any text of a JSON value looks like a secret.
func containsSecret(v any) bool {
	switch v := v.(type) {
	case string:
		if unescaped, err := url.PathUnescape(v); err == nil && looksSecret(unescaped) {
			return true
		}
		return looksSecret(v)
	case []any:
		return slices.ContainsFunc(v, containsSecret)
	case map[string]any:
		for name, e := range v {
			if looksSecret(name) || containsSecret(e) {
				return true
			}
		}
	}
	return false
}

// looksSecret reports whether some part of a text looks like a secret. References of datasets and UUIDs do not.
func looksSecret(text string) bool {
	if reference.MatchString(text) {
		return false
	}
	if issuedSecret.MatchString(text) {
		return true
	}
	for _, t := range longToken.FindAllString(text, -1) {
		if !uuid.MatchString(t) && looksRandom(t) {
			return true
		}
	}
	return false
}

// looksRandom reports whether a token has letters and digits and changes between small letters, capitals and digits at least once in five
// characters. Words change only at their ends: flights-to-rome-2026, departureDate2026.
func looksRandom(token string) bool {
	var changes, digits, letters int
	previous := byte(0)
	for i := range len(token) {
		kind := byte('_')
		switch c := token[i]; {
		case c >= '0' && c <= '9':
			kind = '0'
			digits++
		case c >= 'a' && c <= 'z':
			kind = 'a'
			letters++
		case c >= 'A' && c <= 'Z':
			kind = 'A'
			letters++
		}
		if kind != previous && kind != '_' && previous != '_' && previous != 0 && (previous != 'A' || kind != 'a') {
			changes++
		}
		previous = kind
	}
	return digits > 0 && letters > 0 && 5*changes >= len(token)
}
