package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/cockroachdb/apd/v3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
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

// value is a JSON value, ready to compare.
type value struct {
	kind    valueKind
	isExact bool // float is exactly the number
	float   float64
	text    []byte       // string: its content; number: its literal; else the compact JSON. Often a part of the row: not to be changed
	dec     *apd.Decimal // set when it is needed
}

// shortQuote returns the value as JSON for a message, shortened.
func (v *value) shortQuote() string {
	if v.kind == kindString {
		return strconv.Quote(clip.Bytes(string(v.text), maxQuote))
	}
	return clip.Bytes(string(v.text), maxQuote)
}

func (v *value) isAbsent() bool { return v.kind >= kindNull }

// valueOf reads well-formed JSON. Empty text is a missing value.
func valueOf(raw json.RawMessage) value {
	if len(raw) == 0 {
		return value{kind: kindMissing}
	}
	switch raw[0] {
	case 'n':
		return value{kind: kindNull, text: raw}
	case 't', 'f':
		return value{kind: kindBool, text: raw}
	case '"':
		return value{kind: kindString, text: unquote(raw)}
	case '{', '[':
		var b bytes.Buffer
		_ = json.Compact(&b, raw) // it is well-formed
		return value{kind: kindOther, text: b.Bytes()}
	default:
		v := value{kind: kindString, text: raw}
		v.toNumber()
		return v
	}
}

// unquote returns the content of a string, without a copy where it has no escapes.
func unquote(raw json.RawMessage) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1:max(len(raw)-1, 1)]
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return raw
	}
	return text
}

// listOf splits an array of at most maxValues elements.
func listOf(array []byte, maxValues int) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	for c := dataset.ElementsOf(array); ; {
		from, to, ok := c.Next()
		if !ok {
			return list, nil
		}
		if len(list) == maxValues {
			return nil, fmt.Errorf("has more than %d values", maxValues)
		}
		list = append(list, array[from:to:to])
	}
}

// isNumeric reports whether the value is a number, or a string that is one.
func (v *value) isNumeric() bool {
	if v.kind != kindString || len(v.text) > maxNumber {
		return v.kind == kindNumber
	}
	_, _, ok := dataset.ScanNumber(v.text)
	return ok
}

// toNumber turns a numeric string into a number. Other values do not change.
func (v *value) toNumber() {
	if v.kind != kindString {
		return
	}
	f, isExact, isNumber := parseFloat(v.text)
	switch {
	case isExact:
		v.kind, v.isExact, v.float = kindNumber, true, f
	case isNumber:
		d, _, err := apd.NewFromString(string(v.text))
		if err != nil {
			return // an exponent beyond all reason: it stays a string
		}
		v.kind, v.dec = kindNumber, d
	}
}

func (v *value) decimal() *apd.Decimal {
	switch {
	case v.dec != nil:
	case v.isExact:
		v.dec = shortDecimal(v.text)
	default:
		d, _, err := apd.NewFromString(string(v.text))
		if err != nil {
			return new(apd.Decimal)
		}
		v.dec = d
	}
	return v.dec
}

// shortDecimal returns a number of at most 15 digits without an exponent, which apd parses three times as slowly.
func shortDecimal(text []byte) *apd.Decimal {
	coefficient, fraction := int64(0), 0
	for i, c := range text {
		switch c {
		case '-':
		case '.':
			fraction = len(text) - i - 1
		default:
			coefficient = coefficient*10 + int64(c-'0')
		}
	}
	if text[0] == '-' {
		coefficient = -coefficient
	}
	return apd.New(coefficient, int32(-fraction))
}

func compareNumbers(a, b *value) int {
	if a.isExact && b.isExact {
		return cmp.Compare(a.float, b.float)
	}
	return a.decimal().Cmp(b.decimal())
}

// compareValues orders two values that are there: by kind, then within the kind.
func compareValues(a, b *value) int {
	switch {
	case a.kind != b.kind:
		return cmp.Compare(a.kind, b.kind)
	case a.kind == kindNumber:
		return compareNumbers(a, b)
	case a.kind == kindOther: // objects have no order; they keep the one they have
		return 0
	default:
		return bytes.Compare(a.text, b.text)
	}
}

// sameKind returns copies of two values that compare within one kind: a numeric string becomes a number beside a number.
func sameKind(a, b value) (value, value, bool) {
	if a.kind != b.kind && a.isNumeric() && b.isNumeric() {
		a.toNumber()
		b.toNumber()
	}
	return a, b, a.kind == b.kind
}

// equalValues reports whether two values are the same; missing and null are.
func equalValues(a, b value) bool {
	if a.isAbsent() || b.isAbsent() {
		return a.isAbsent() && b.isAbsent()
	}
	a, b, ok := sameKind(a, b)
	switch {
	case !ok:
		return false
	case a.kind == kindNumber:
		return compareNumbers(&a, &b) == 0
	default:
		return bytes.Equal(a.text, b.text)
	}
}

// appendKey appends a key that two values share exactly if they are of one kind and equal. Missing and null share one.
func (v *value) appendKey(key []byte) []byte {
	switch v.kind {
	case kindMissing, kindNull:
		return append(key, "n;"...)
	case kindNumber:
		key = v.appendNumber(append(key, '0'))
	case kindString:
		key = append(append(key, 's'), v.text...)
	case kindBool, kindOther:
		key = append(append(key, 'o'), v.text...)
	}
	return key
}
