package pipeline

import (
	"strconv"

	"github.com/cockroachdb/apd/v3"

	"github.com/turnstone-run/turnstone/internal/dataset"
)

// maxNumber is the maximum length of a number in a string, in bytes, because comparing long decimals takes time. Longer ones compare as
// strings.
const maxNumber = 1000

// parseFloat parses a number. f is the number if isExact: it has at most 15 digits and no exponent.
func parseFloat(text []byte) (f float64, isExact, isNumber bool) {
	const maxExact = 30 // bytes
	if len(text) > maxNumber {
		return 0, false, false
	}
	digits, hasExponent, ok := dataset.ScanNumber(text)
	if !ok || hasExponent || digits > dataset.ExactDigits || len(text) > maxExact {
		return 0, false, ok
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f + 0, err == nil, true // + 0 turns -0 into 0
}

// appendNumber appends the key of a number, which is the same for 1, 1.0 and 1e0.
func (v *value) appendNumber(key []byte) []byte {
	const maxExponent = 300
	if v.isExact {
		return strconv.AppendFloat(key, v.float, 'e', -1, 64)
	}
	d, _ := new(apd.Decimal).Reduce(v.decimal())
	if e := magnitude(d); d.NumDigits() <= dataset.ExactDigits && e <= maxExponent && e >= -maxExponent {
		if f, err := d.Float64(); err == nil {
			return strconv.AppendFloat(key, f+0, 'e', -1, 64)
		}
	}
	return d.Append(key, 'E')
}

// magnitude returns the number of digits before the decimal point. It is negative for a fraction that begins with zeros.
func magnitude(d *apd.Decimal) int64 { return d.NumDigits() + int64(d.Exponent) }

// maxMagnitude bounds the numbers of a sum: the exact sum of 1e99999 and 1 would have a hundred thousand digits.
const maxMagnitude = 400

// exactSum adds numbers without rounding.
type exactSum struct {
	count int64
	sum   apd.Decimal
}

// add adds a number. It returns false if the number is too large or too small to be summed.
func (t *exactSum) add(v *value) bool {
	t.count++
	d := v.decimal()
	if e := magnitude(d); e > maxMagnitude || e < -maxMagnitude || d.Exponent < -2*maxNumber {
		return false
	}
	_, _ = apd.BaseContext.Add(&t.sum, &t.sum, d) // BaseContext has no precision and so does not round
	return true
}

// mean returns the average. It is exact if 34 digits are enough. Otherwise it is rounded to 16 digits, or to more if there are more before
// the decimal point.
func (t *exactSum) mean() *apd.Decimal {
	const (
		meanDigits  = 34
		shownDigits = 16
	)
	d := new(apd.Decimal)
	state, err := apd.BaseContext.WithPrecision(meanDigits).Quo(d, &t.sum, apd.New(t.count, 0))
	if err != nil {
		return &t.sum
	}
	if state.Inexact() {
		shown := max(shownDigits, min(magnitude(d), meanDigits))
		_, _ = apd.BaseContext.WithPrecision(uint32(shown)).Round(d, d)
	}
	d.Reduce(d)
	return d
}

// overflowsFloat reports whether a number is too large for a float64, and so for a dataset.
func overflowsFloat(d *apd.Decimal) bool {
	const surelyFits = 308 // digits before the point
	if magnitude(d) <= surelyFits {
		return false
	}
	_, err := d.Float64()
	return err != nil
}

// appendDecimal appends a number as JSON, with an exponent only if it is very large or very small.
func appendDecimal(b []byte, d *apd.Decimal) []byte {
	if e := magnitude(d); e > 40 || e < -20 {
		return d.Append(b, 'E')
	}
	return d.Append(b, 'f')
}
