package pipeline

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// accumulator computes one aggregate for all groups.
type accumulator interface {
	addGroup()
	// add adds a value that is not null. problem says why it cannot, if so.
	add(group int, raw json.RawMessage, v *value) (problem string)
	// write appends the result as JSON. problem says why a dataset cannot hold it, if so.
	write(b []byte, group int) (out []byte, problem string)
}

// counts counts rows, or the values of a field that are not null.
type counts struct{ byGroup []int64 }

func (c *counts) addGroup() { c.byGroup = append(c.byGroup, 0) }

func (c *counts) add(g int, _ json.RawMessage, _ *value) string {
	c.byGroup[g]++
	return ""
}

func (c *counts) write(b []byte, g int) ([]byte, string) {
	return strconv.AppendInt(b, c.byGroup[g], 10), ""
}

// sums computes exact sums or averages. The result of no values is null.
type sums struct {
	byGroup []exactSum
	isMean  bool
}

func (t *sums) addGroup() { t.byGroup = append(t.byGroup, exactSum{}) }

func (t *sums) add(g int, raw json.RawMessage, v *value) string {
	v.toNumber()
	switch {
	case v.kind != kindNumber:
		return fmt.Sprintf("%s is no number", clip.Bytes(string(raw), maxQuote))
	case !t.byGroup[g].add(v):
		return fmt.Sprintf("%s is too large or too small to be summed", clip.Bytes(string(raw), maxQuote))
	default:
		return ""
	}
}

func (t *sums) write(b []byte, g int) ([]byte, string) {
	sum := &t.byGroup[g]
	if sum.count == 0 {
		return append(b, null()...), ""
	}
	d := &sum.sum
	if t.isMean {
		d = sum.mean()
	}
	if overflowsFloat(d) {
		return b, "is beyond what a 64-bit float holds"
	}
	return appendDecimal(b, d), ""
}

// extremes finds the smallest or largest value in the order of table_sort. Of equal values it keeps the first.
type extremes struct {
	sign      int  // 1: the smallest, -1: the largest
	isNumeric bool // every value of the column is a number or a numeric string
	byGroup   []extreme
}

type extreme struct {
	raw   json.RawMessage // nil: there is no value yet
	value value
}

func (e *extremes) addGroup() { e.byGroup = append(e.byGroup, extreme{}) }

func (e *extremes) add(g int, raw json.RawMessage, v *value) string {
	if v.kind == kindOther {
		return fmt.Sprintf("is %s, which has no order", kindName(raw))
	}
	if e.isNumeric {
		v.toNumber()
	}
	if best := &e.byGroup[g]; best.raw == nil || e.sign*compareValues(v, &best.value) < 0 {
		*best = extreme{raw, *v}
	}
	return ""
}

func (e *extremes) write(b []byte, g int) ([]byte, string) {
	if e.byGroup[g].raw == nil {
		return append(b, null()...), ""
	}
	return append(b, e.byGroup[g].raw...), ""
}

// allNumeric reports whether all values of a column are numbers or numeric strings. Absent values are ignored.
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

// appendKeyPart appends a value to a key of several values. The length of each is written before it, so that different values never make the
// same key.
func appendKeyPart(key []byte, v *value) []byte {
	start := len(key)
	key = v.appendKey(append(key, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(key[start:], uint32(len(key)-start-4)) //nolint:gosec // a value is shorter than 4 GiB
	return key
}
