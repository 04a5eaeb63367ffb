package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// valueKind is what a value is, in the order in which kinds sort.
type valueKind uint8

const (
	kindNumber valueKind = iota
	kindString
	kindBool
	kindOther // an object or an array
	kindNull
	kindMissing
)

// The longest number that compares as one, in bytes; longer ones are strings. Comparing decimals costs time with their length.
const maxNumber = 1000

// exactDigits is how long a plain decimal may be, sign and point included, for a float64 to hold it without a doubt: two different
// decimals of up to 15 digits are two different float64, in the same order.
const exactDigits = 15

// value is a JSON value, ready to compare.
type value struct {
	kind  valueKind
	text  string // string: its content; number: its literal; else the compact JSON
	float float64
	exact bool         // float is all of the number
	dec   *apd.Decimal // when it is needed and float is not enough
}

func (v *value) absent() bool { return v.kind >= kindNull }

// valueOf reads well-formed JSON; nil is a missing value.
func valueOf(raw json.RawMessage) value {
	if len(raw) == 0 {
		return value{kind: kindMissing}
	}
	switch raw[0] {
	case 'n':
		return value{kind: kindNull, text: "null"}
	case 't', 'f':
		return value{kind: kindBool, text: string(raw)}
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return value{kind: kindOther, text: string(raw)}
		}
		return value{kind: kindString, text: s}
	case '{', '[':
		var b bytes.Buffer
		_ = json.Compact(&b, raw) // it is well-formed
		return value{kind: kindOther, text: b.String()}
	default:
		v := value{kind: kindString, text: string(raw)}
		v.toNumber()
		return v
	}
}

// isNumeric reports whether the value is a number, or a string that is one.
func (v *value) isNumeric() bool {
	switch v.kind {
	case kindNumber:
		return true
	case kindString:
		return len(v.text) > 0 && len(v.text) <= maxNumber && (v.text[0] == '-' || v.text[0] >= '0' && v.text[0] <= '9') &&
			json.Valid([]byte(v.text))
	default:
		return false
	}
}

// toNumber turns a numeric string into a number; anything else stays as it is.
func (v *value) toNumber() {
	if v.kind != kindString || !v.isNumeric() {
		return
	}
	n := json.Number(strings.TrimSpace(v.text))
	f, err := n.Float64()
	v.exact = err == nil && len(n) <= exactDigits && !strings.ContainsAny(string(n), "eE")
	if !v.exact {
		d, _, err := apd.NewFromString(string(n))
		if err != nil {
			return // an exponent beyond all reason: it stays a string
		}
		v.dec = d
	}
	v.kind, v.text, v.float = kindNumber, string(n), f
}

func (v *value) decimal() *apd.Decimal {
	if v.dec == nil {
		d, _, err := apd.NewFromString(v.text)
		if err != nil {
			return new(apd.Decimal)
		}
		v.dec = d
	}
	return v.dec
}

func compareNumbers(a, b *value) int {
	if a.exact && b.exact {
		return cmp.Compare(a.float, b.float)
	}
	return a.decimal().Cmp(b.decimal())
}

// order compares two values that are there, for sorting: by kind, then within the kind.
func order(a, b *value) int {
	switch {
	case a.kind != b.kind:
		return cmp.Compare(a.kind, b.kind)
	case a.kind == kindNumber:
		return compareNumbers(a, b)
	case a.kind == kindOther: // objects have no order; they keep the one they have
		return 0
	default:
		return strings.Compare(a.text, b.text)
	}
}

// compatible returns copies of two values that compare within one kind, a numeric string made a number beside a number.
func compatible(a, b value) (value, value, bool) {
	if a.kind != b.kind {
		if a.isNumeric() && b.isNumeric() {
			a.toNumber()
			b.toNumber()
		}
	}
	return a, b, a.kind == b.kind
}

// equal reports whether two values are the same; missing and null are.
func equal(a, b value) bool {
	if a.absent() || b.absent() {
		return a.absent() && b.absent()
	}
	a, b, ok := compatible(a, b)
	switch {
	case !ok:
		return false
	case a.kind == kindNumber:
		return compareNumbers(&a, &b) == 0
	default:
		return a.text == b.text
	}
}
