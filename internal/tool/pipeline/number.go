package pipeline

import (
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// The longest number that counts as one, in bytes; longer ones are strings. Comparing decimals costs time with their length.
const maxNumber = 1000

// exactDigits is how many digits a plain decimal may have for a float64 to hold it without a doubt: two different decimals of up to 15
// digits are two different float64, in the same order.
const exactDigits = 15

// isNumber reports whether a text is a number as JSON writes it.
func isNumber(text []byte) bool {
	if len(text) == 0 || len(text) > maxNumber {
		return false
	}
	i := 0
	if text[0] == '-' {
		i++
	}
	switch {
	case i == len(text):
		return false
	case text[i] == '0':
		i++
	default:
		from := i
		if i = digits(text, i); i == from {
			return false
		}
	}
	if i < len(text) && text[i] == '.' {
		from := i + 1
		if i = digits(text, from); i == from {
			return false
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		from := i
		if i = digits(text, i); i == from {
			return false
		}
	}
	return i == len(text)
}

func digits(text []byte, i int) int {
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return i
}

// decimal is coef·10^-scale: a number of at most 15 digits, or a sum of such.
type decimal struct {
	coef  int64
	scale int
}

// plain reads a number without an exponent of at most 15 digits. The text is one of JSON.
func plain(text []byte) (decimal, bool) {
	var n decimal
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) > exactDigits+1 {
		return n, false
	}
	point := -1
	for i, c := range text {
		switch {
		case c == '.':
			point = i
		case c-'0' <= 9:
			n.coef = n.coef*10 + int64(c-'0')
		default:
			return n, false
		}
	}
	if point >= 0 {
		n.scale = len(text) - point - 1
	} else if len(text) > exactDigits {
		return n, false
	}
	if negative {
		n.coef = -n.coef
	}
	return n, true
}

// power is 10^n; up to 15 a float64 holds it exactly.
func power(n int) int64 {
	p := int64(1)
	for ; n > 0; n-- {
		p *= 10
	}
	return p
}

// float is exact up to rounding: both parts are, and division rounds once.
func (d decimal) float() float64 {
	if d.scale == 0 {
		return float64(d.coef)
	}
	return float64(d.coef) / float64(power(d.scale))
}

// reduced drops zeros behind the point.
func (d decimal) reduced() decimal {
	for d.scale > 0 && d.coef%10 == 0 {
		d.coef /= 10
		d.scale--
	}
	return d
}

// append writes the number in a form of its own, for keys.
func (d decimal) append(b []byte) []byte {
	b = strconv.AppendInt(b, d.coef, 10)
	if d.scale > 0 {
		b = strconv.AppendInt(append(b, '/'), int64(d.scale), 10)
	}
	return b
}

// maxCoef bounds what a sum keeps in an int64: adding another one cannot overflow.
const maxCoef = int64(1) << 61

// maxAdjusted bounds the magnitude of what is summed: an exact sum of 1e99999 and 1 would have a hundred thousand digits.
const maxAdjusted = 400

// total is an exact sum.
type total struct {
	count int64
	small decimal      // of what fits
	large *apd.Decimal // of the rest; nil: nothing
}

// add adds a number; false when it is beyond what can be summed.
func (t *total) add(v *value) bool {
	t.count++
	if n, ok := plain(v.text); ok {
		t.addSmall(n)
		return true
	}
	d := v.decimal()
	if e := d.NumDigits() + int64(d.Exponent); e > maxAdjusted || e < -maxAdjusted || d.Exponent < -2*maxNumber {
		return false
	}
	t.addLarge(d)
	return true
}

func (t *total) addSmall(n decimal) {
	scale := max(n.scale, t.small.scale)
	a, fits := t.small.rescaled(scale)
	b, alsoFits := n.rescaled(scale)
	if !fits || !alsoFits {
		t.flush()
		t.small = n
		return
	}
	t.small = decimal{coef: a + b, scale: scale}
}

// rescaled returns the coefficient at a scale that is not lower.
func (d decimal) rescaled(scale int) (int64, bool) {
	coef := d.coef
	for range scale - d.scale {
		if coef > maxCoef/10 || coef < -maxCoef/10 {
			return 0, false
		}
		coef *= 10
	}
	return coef, coef <= maxCoef && coef >= -maxCoef
}

// flush moves the small part to the large one.
func (t *total) flush() {
	t.addLarge(apd.New(t.small.coef, -int32(t.small.scale))) //nolint:gosec // a scale is at most 15
	t.small = decimal{}
}

func (t *total) addLarge(d *apd.Decimal) {
	if t.large == nil {
		t.large = new(apd.Decimal)
	}
	_, _ = apd.BaseContext.Add(t.large, t.large, d) // without a precision the sum is exact; magnitudes are bounded
}

// sum returns the exact total.
func (t *total) sum() *apd.Decimal {
	if t.large == nil {
		return apd.New(t.small.coef, -int32(t.small.scale)) //nolint:gosec // a scale is at most 15
	}
	d := new(apd.Decimal)
	_, _ = apd.BaseContext.Add(d, t.large, apd.New(t.small.coef, -int32(t.small.scale))) //nolint:gosec // as above
	return d
}

// The digits of an average: it is computed with meanDigits; one that is not exact then is shown with shownDigits.
const (
	meanDigits  = 34
	shownDigits = 16
)

// mean returns the average, exact where 34 digits are enough, else rounded to 16 digits, and never above the point.
func (t *total) mean() *apd.Decimal {
	c := apd.BaseContext.WithPrecision(meanDigits)
	d := new(apd.Decimal)
	sum := t.sum()
	state, err := c.Quo(d, sum, apd.New(t.count, 0))
	if err != nil {
		return sum
	}
	if state.Inexact() {
		whole := max(d.NumDigits()+int64(d.Exponent), 0)
		shown := max(shownDigits, min(whole, meanDigits))
		_, _ = apd.BaseContext.WithPrecision(uint32(shown)).Round(d, d)
	}
	d.Reduce(d)
	return d
}

// beyondFloat reports whether a number is larger than datasets take.
func beyondFloat(d *apd.Decimal) bool {
	const sure = 308 // digits before the point
	if d.NumDigits()+int64(d.Exponent) <= sure {
		return false
	}
	_, err := d.Float64()
	return err != nil
}

// appendDecimal writes a number as JSON: without an exponent unless it is very large or small.
func appendDecimal(b []byte, d *apd.Decimal) []byte {
	if e := d.NumDigits() + int64(d.Exponent); e > 40 || e < -20 {
		return d.Append(b, 'E')
	}
	return d.Append(b, 'f')
}
