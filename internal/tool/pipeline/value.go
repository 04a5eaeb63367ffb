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

// valueKind is the kind of a JSON value. Kinds sort in the order of their constants.
type valueKind uint8

const (
	kindNumber valueKind = iota
	kindString
	kindBool
	kindOther // an object or an array
	kindNull
	kindMissing
)

// value is a JSON value that can be compared.
type value struct {
	kind    valueKind
	isExact bool // float is exactly the number
	float   float64
	text    []byte       // the content of a string, the literal of a number, or compact JSON; it may be a part of the row
	dec     *apd.Decimal // set by decimal
}

// quote returns the value as shortened JSON for a message.
func (v *value) quote() string {
	if v.kind == kindString {
		return strconv.Quote(clip.Bytes(string(v.text), maxQuote))
	}
	return clip.Bytes(string(v.text), maxQuote)
}

func (v *value) isAbsent() bool { return v.kind >= kindNull }

// valueOf returns the value of well-formed JSON. An empty text is a missing value.
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
		_ = json.Compact(&b, raw) // well-formed JSON causes no error
		return value{kind: kindOther, text: b.Bytes()}
	default:
		v := value{kind: kindString, text: raw}
		v.toNumber()
		return v
	}
}

// unquote returns the content of a JSON string. It makes a copy only if the string has escapes.
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

// splitArray returns the elements of an array. More than maxValues elements are an error.
func splitArray(array []byte, maxValues int) ([]json.RawMessage, error) {
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

// isNumeric reports whether the value is a number or a string that holds one.
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
			return // the exponent is too large for apd: the value stays a string
		}
		v.kind, v.dec = kindNumber, d
	}
}

// decimal returns a number as a decimal, 0 if its exponent is too large for apd.
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

// shortDecimal parses a number of at most 15 digits without an exponent, three times as fast as apd.
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

// compareValues compares two values that are not absent: by kind, then within the kind.
func compareValues(a, b *value) int {
	switch {
	case a.kind != b.kind:
		return cmp.Compare(a.kind, b.kind)
	case a.kind == kindNumber:
		return compareNumbers(a, b)
	case a.kind == kindOther: // objects and arrays have no order
		return 0
	default:
		return bytes.Compare(a.text, b.text)
	}
}

// alignKinds returns the values with a numeric string turned into a number if the other value is a number. ok reports whether both then are of
// the same kind.
func alignKinds(a, b value) (_, _ value, ok bool) {
	if a.kind != b.kind && a.isNumeric() && b.isNumeric() {
		a.toNumber()
		b.toNumber()
	}
	return a, b, a.kind == b.kind
}

// equalValues reports whether two values are equal. Missing and null are equal.
func equalValues(a, b value) bool {
	if a.isAbsent() || b.isAbsent() {
		return a.isAbsent() && b.isAbsent()
	}
	a, b, ok := alignKinds(a, b)
	switch {
	case !ok:
		return false
	case a.kind == kindNumber:
		return compareNumbers(&a, &b) == 0
	default:
		return bytes.Equal(a.text, b.text)
	}
}

// appendKey appends a key to a byte slice. Two values have the same key exactly if they are equal and of the same kind. Missing and null have
// the same key.
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
