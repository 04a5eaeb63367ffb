package dataset

import "strconv"

// ExactDigits is how many significant digits a float64 always holds: two different numbers of so many digits are two different floats, in
// the same order.
const ExactDigits = 15

// ScanNumber reads a number in JSON's syntax. It returns how many significant digits the number has before its exponent, and whether it has
// an exponent. ok is false for any other text.
func ScanNumber[T ~string | ~[]byte](text T) (digits int, hasExponent, ok bool) {
	i := 0
	scanDigits := func() bool {
		from := i
		for ; i < len(text) && text[i]-'0' <= 9; i++ {
			if digits > 0 || text[i] != '0' {
				digits++
			}
		}
		return i > from
	}
	if i < len(text) && text[i] == '-' {
		i++
	}
	whole := i
	if !scanDigits() || text[whole] == '0' && i > whole+1 {
		return 0, false, false
	}
	if i < len(text) && text[i] == '.' {
		i++
		if !scanDigits() {
			return 0, false, false
		}
	}
	significant := digits
	if i < len(text) && text[i]|0x20 == 'e' {
		hasExponent = true
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if !scanDigits() {
			return 0, false, false
		}
	}
	return significant, hasExponent, i == len(text)
}

// overflowsFloat reports whether a number is too large for a float64.
func overflowsFloat(number string) bool {
	_, err := strconv.ParseFloat(number, 64)
	return err != nil
}
