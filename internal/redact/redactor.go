package redact

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// lookAhead is how many bytes beyond [MaxText] are read, so that a secret at the cut is seen whole.
const lookAhead = 8 << 10

// Finder replaces the personal data of one kind in texts and counts the replacements; *pii.Rule is one. It returns a text without any
// unchanged.
type Finder interface {
	Apply(text string) (out string, found int, err error)
}

// Rules say what a [Redactor] takes out besides what looks like a credential.
type Rules struct {
	// Secrets are known by value, at most 1,000. Those below [ShortestSecret] and words of less than 12 letters are ignored, because
	// texts contain them by chance.
	Secrets []string
	// Personal finds personal data. Default none.
	Personal []Finder
}

// Redactor takes secrets and personal data out of texts. It is safe for concurrent use.
type Redactor struct {
	credentials *credentialFinder
	personal    []Finder
	secrets     *secretSet
}

// New returns a redactor.
func New(rules Rules) *Redactor {
	return &Redactor{credentials: newCredentialFinder(), personal: rules.Personal, secrets: newSecretSet(rules.Secrets)}
}

// Text returns text without secrets and personal data. Of more than [MaxText] bytes it returns the beginning and a note that says how
// much is missing.
func (r *Redactor) Text(text string) string {
	if len(text) <= MaxText {
		return r.redact(text)
	}
	// The common prefix of both ends before the cut, and before a secret that the cut goes through.
	ahead := min(len(text), MaxText+lookAhead+r.secrets.longest)
	whole, cut := r.redact(text[:ahead]), r.redact(text[:MaxText])
	n := 0
	for n < min(len(whole), len(cut)) && whole[n] == cut[n] {
		n++
	}
	for n > 0 && n < len(whole) && !utf8.RuneStart(whole[n]) {
		n--
	}
	return fmt.Sprintf("%s… [cut: %d of %d bytes]", strings.Clone(whole[:n]), len(text)-MaxText, len(text))
}

// Contains reports whether text contains a secret or personal data.
func (r *Redactor) Contains(text string) bool { return r.redact(text) != text }

// IsSuspiciousNumber reports whether a number has enough digits to be a card's or a known secret. It is a quick check before [Redactor.Contains].
func (r *Redactor) IsSuspiciousNumber(value float64) bool {
	value = max(value, -value)
	return value >= 1e11 && len(r.personal) > 0 || value >= 1e5 && r.secrets.hasNumber
}

func (r *Redactor) redact(text string) string {
	if len(text) < ShortestSecret {
		return text
	}
	text = r.credentials.redact(r.secrets.mask(text))
	for _, f := range r.personal {
		text = applyFinder(f, text)
	}
	return text
}

// applyFinder applies a finder to text, and again with %40 decoded, as URLs write the @ of an address.
func applyFinder(f Finder, text string) string {
	out, _, err := f.Apply(text)
	if err != nil {
		return Placeholder
	}
	if !strings.Contains(out, "%40") {
		return out
	}
	if decoded, found, err := f.Apply(strings.ReplaceAll(out, "%40", "@")); err != nil || found > 0 {
		return decoded
	}
	return out
}
