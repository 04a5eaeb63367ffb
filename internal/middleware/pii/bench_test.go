package pii_test

import (
	"strings"
	"testing"

	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// clean is 1 MB of prose without anything to find, but with numbers, dots and slashes.
func clean() string {
	const line = "On 14 March 2024 the team shipped version 1.27.3 to 40 customers; load fell from 0.84 to 0.31 and/or stayed there, e.g. at night.\n"
	return strings.Repeat(line, 1_000_000/len(line))
}

func benchmarked(b *testing.B) map[string]*pii.Rule {
	b.Helper()
	rules := map[string]*pii.Rule{"detector": newDetector(b, "", `\bsk-[a-zA-Z0-9]{32}\b`, 0)}
	for _, kind := range []string{pii.TypeEmail, pii.TypeCreditCard, pii.TypeIP, pii.TypeMACAddress, pii.TypeURL} {
		rules[kind] = newRule(b, kind, "")
	}
	return rules
}

func BenchmarkApply(b *testing.B) {
	text := clean()
	for name, r := range benchmarked(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, found, err := r.Apply(text); found != 0 || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// The stream gets chunks of 16 bytes, about four tokens.
func BenchmarkStream(b *testing.B) {
	text := clean()
	for name, r := range benchmarked(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s := pii.NewStream(r)
				n := 0
				for i := 0; i < len(text); i += 16 {
					n += len(s.Write(text[i:min(i+16, len(text))]))
				}
				if n += len(s.Flush()); n != len(text) {
					b.Fatal(n)
				}
			}
		})
	}
}
