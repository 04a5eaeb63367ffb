package logs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	redacted = "[redacted]"
	// maxText is how much of one text is written.
	maxText = 16 << 10
	// lookAhead is how far beyond maxText a text is read, so that a secret is whole that the cut goes through.
	lookAhead = 8 << 10
)

// Finder takes values of one kind out of texts and says how many there were; *pii.Rule is one. It answers a text without any as it is.
type Finder interface {
	Apply(text string) (out string, found int, err error)
}

// Rules say what a [Redactor] takes out, besides what looks like a credential.
type Rules struct {
	// Secrets are known by value, at most 1,000. Those of less than 6 bytes, and words of less than 12 letters, are not looked for:
	// they stand in texts by chance.
	Secrets []string
	// Masker makes what finds them in other spellings; nil: they are found as they are.
	Masker func(secrets ...string) Masker
	// Personal finds personal data. Default none.
	Personal []Finder
}

// Redactor takes secrets and personal data out of texts. It may be used by several goroutines at once.
type Redactor struct {
	shapes   *shapes
	personal []Finder
	masker   func(secrets ...string) Masker
	known    atomic.Pointer[known]
	learning sync.Mutex
	lines    sync.Pool // of *line
	nests    sync.Pool // of *nest
}

// NewRedactor makes one.
func NewRedactor(rules Rules) *Redactor {
	r := &Redactor{shapes: newShapes(), personal: rules.Personal, masker: rules.Masker}
	r.lines.New = func() any { return &line{} }
	r.nests.New = func() any { return &nest{} }
	r.known.Store(newKnown(rules.Secrets, r.masker))
	return r
}

// Learn adds secrets to the known ones, for those that come to light while the process runs. Within the bounds of [Rules].
func (r *Redactor) Learn(secrets ...string) {
	r.learning.Lock()
	defer r.learning.Unlock()
	r.known.Store(newKnown(slices.Concat(r.known.Load().secrets, secrets), r.masker))
}

// Text is a text without secrets and personal data, and no longer than 16 KiB but for a note that says how much is missing.
func (r *Redactor) Text(text string) string {
	if len(text) <= maxText {
		return r.redact(text)
	}
	// What the two agree on is before the cut, and before whatever the cut goes through.
	ahead := min(len(text), maxText+lookAhead+r.known.Load().longest)
	whole, cut := r.redact(text[:ahead]), r.redact(text[:maxText])
	n := 0
	for n < min(len(whole), len(cut)) && whole[n] == cut[n] {
		n++
	}
	for n > 0 && n < len(whole) && !utf8.RuneStart(whole[n]) {
		n--
	}
	return fmt.Sprintf("%s… [cut: %d of %d bytes]", strings.Clone(whole[:n]), len(text)-maxText, len(text))
}

func (r *Redactor) redact(text string) string {
	if len(text) < shortestSecret { // nothing is found in so little, but a secret's end: known ones are longer
		return text
	}
	text = r.shapes.redact(r.known.Load().mask(text))
	for _, f := range r.personal {
		text = applied(f, text)
	}
	return text
}

// applied is a text after a finder, also where it is written as a URL has it.
func applied(f Finder, text string) string {
	out, _, err := f.Apply(text)
	if err != nil {
		return redacted
	}
	if !strings.Contains(out, "%40") {
		return out
	}
	if decoded, found, err := f.Apply(strings.ReplaceAll(out, "%40", "@")); err != nil || found > 0 {
		return decoded
	}
	return out
}
