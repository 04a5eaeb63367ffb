package offline

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxDigits is how many bytes a number may have, and how large its exponent may be.
const maxDigits = 40

// number makes a number: what is known under the name, else the simplest that fits.
func (m *maker) number(p *place, typ string, at spot) (json.RawMessage, error) {
	fits := func(v json.RawMessage) bool { return isType(v, typ) && p.fits(v) }
	if at.nth == 0 {
		for _, v := range p.given(m.known.cell(at.name)) {
			if fits(v) {
				return v, nil
			}
		}
		if v, ok := m.known.number(at.name, fits); ok {
			return v, nil
		}
	}
	step := big.NewRat(1, 1)
	if s, ok := rational(p.keywords["multipleOf"]); ok && s.Sign() > 0 {
		step = s
	}
	var from []*big.Rat
	from = append(from, new(big.Rat))
	var low, high *big.Rat
	for _, k := range []string{"minimum", "exclusiveMinimum"} {
		if r, ok := rational(p.keywords[k]); ok {
			low = r
			up := multiple(r, step)
			from = append(from, up, new(big.Rat).Add(up, step))
		}
	}
	for _, k := range []string{"maximum", "exclusiveMaximum"} {
		if r, ok := rational(p.keywords[k]); ok {
			high = r
			down := new(big.Rat).Neg(multiple(new(big.Rat).Neg(r), step))
			for i := range 3 {
				back := new(big.Rat).Mul(step, big.NewRat(int64(at.nth+i), 1))
				from = append(from, new(big.Rat).Sub(down, back))
			}
		}
	}
	if low != nil && high != nil {
		middle := new(big.Rat).Add(low, high)
		middle.Mul(middle, big.NewRat(1, 2))
		from = append(from, middle)
	}
	for _, r := range from {
		r = new(big.Rat).Add(r, new(big.Rat).Mul(step, big.NewRat(int64(at.nth), 1)))
		if v := decimal(r); v != nil && fits(v) {
			return v, nil
		}
	}
	return nil, errNever
}

// multiple is the least multiple of step that is not below r.
func multiple(r, step *big.Rat) *big.Rat {
	q := new(big.Rat).Quo(r, step)
	whole, rest := new(big.Int).DivMod(q.Num(), q.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return new(big.Rat).Mul(new(big.Rat).SetInt(whole), step)
}

// decimal writes a number, nil when it has no end.
func decimal(r *big.Rat) json.RawMessage {
	digits, exact := r.FloatPrec()
	if !exact {
		return nil
	}
	return json.RawMessage(r.FloatString(digits))
}

// rational reads a JSON number of ordinary size.
func rational(raw json.RawMessage) (*big.Rat, bool) {
	var n json.Number
	if len(raw) == 0 || len(raw) > maxDigits || raw[0] == '"' || json.Unmarshal(raw, &n) != nil || n == "" {
		return nil, false
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		if e, err := strconv.Atoi(string(n[i+1:])); err != nil || e < -maxDigits || e > maxDigits {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

func (p *place) fitsNumber(r *big.Rat) bool {
	bounds := []struct {
		keyword string
		allowed []int // what comparing with it may say
	}{{"minimum", []int{0, 1}}, {"exclusiveMinimum", []int{1}}, {"maximum", []int{-1, 0}}, {"exclusiveMaximum", []int{-1}}}
	for _, b := range bounds {
		if bound, ok := rational(p.keywords[b.keyword]); ok && !slices.Contains(b.allowed, r.Cmp(bound)) {
			return false
		}
	}
	step, ok := rational(p.keywords["multipleOf"])
	return !ok || step.Sign() <= 0 || new(big.Rat).Quo(r, step).IsInt()
}
