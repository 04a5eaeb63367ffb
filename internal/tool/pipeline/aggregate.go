package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// accumulator computes one aggregate for all groups.
type accumulator interface {
	addGroup() // begins one more group
	// add takes a value that is there; why says in words why it cannot.
	add(group int, raw json.RawMessage, v *value) (why string)
	// write appends the result as JSON; why says in words why there is none that could be read again.
	write(b []byte, group int) (out []byte, why string)
}

// counts counts rows, or the values that are not null.
type counts struct{ n []int64 }

func (c *counts) addGroup() { c.n = append(c.n, 0) }

func (c *counts) add(g int, _ json.RawMessage, _ *value) string {
	c.n[g]++
	return ""
}

func (c *counts) write(b []byte, g int) ([]byte, string) { return strconv.AppendInt(b, c.n[g], 10), "" }

// totals sums exactly, in decimals; of no values the result is null.
type totals struct {
	all  []exactSum
	mean bool
}

func (t *totals) addGroup() { t.all = append(t.all, exactSum{}) }

func (t *totals) add(g int, raw json.RawMessage, v *value) string {
	v.toNumber()
	switch {
	case v.kind != kindNumber:
		return fmt.Sprintf("%s is no number", clip.Bytes(string(raw), maxQuote))
	case !t.all[g].add(v):
		return fmt.Sprintf("%s is too large or too small to be summed", clip.Bytes(string(raw), maxQuote))
	default:
		return ""
	}
}

func (t *totals) write(b []byte, g int) ([]byte, string) {
	all := &t.all[g]
	if all.count == 0 {
		return append(b, null()...), ""
	}
	d := &all.sum
	if t.mean {
		d = all.mean()
	}
	if overflowsFloat(d) {
		return b, "is beyond what a 64-bit float holds"
	}
	return appendDecimal(b, d), ""
}

// extremes finds the least or greatest value, in the order of table_sort; the first of equal ones.
type extremes struct {
	sign    int  // 1: least, -1: greatest
	numeric bool // every value of the column is a number or a string that is one
	best    []extremeValue
}

type extremeValue struct {
	raw   json.RawMessage
	value value
}

func (e *extremes) addGroup() { e.best = append(e.best, extremeValue{}) }

func (e *extremes) add(g int, raw json.RawMessage, v *value) string {
	if v.kind == kindOther {
		return fmt.Sprintf("is %s, which has no order", describe(raw))
	}
	if e.numeric {
		v.toNumber()
	}
	if best := &e.best[g]; best.raw == nil || e.sign*compareValues(v, &best.value) < 0 {
		*best = extremeValue{raw, *v}
	}
	return ""
}

func (e *extremes) write(b []byte, g int) ([]byte, string) {
	if e.best[g].raw == nil {
		return append(b, null()...), ""
	}
	return append(b, e.best[g].raw...), ""
}

// allNumeric reports whether a column holds nothing but numbers, some of them as strings.
func allNumeric(ctx context.Context, p *path, rows []row) (bool, error) {
	for i := range rows {
		r, err := objectRow(ctx, rows, i)
		if err != nil {
			return false, err
		}
		raw, _ := p.find(r)
		if v := valueOf(raw); !v.isAbsent() && !v.isNumeric() {
			return false, nil
		}
	}
	return true, nil
}

// appendPart appends a value to a key of several: its length stands before it, so that no two keys run into each other.
func appendPart(key []byte, v *value) []byte {
	at := len(key)
	key = v.appendKey(append(key, 0, 0, 0, 0))
	n := len(key) - at - 4
	key[at], key[at+1], key[at+2], key[at+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n) //nolint:gosec // the four bytes of a length
	return key
}
