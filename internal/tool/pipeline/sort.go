package pipeline

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
)

// sortedRun is how many items are sorted at once, between two looks at the context.
const sortedRun = 1 << 13

// sortStable sorts like [slices.SortStableFunc], but ends when the context does and takes n log n comparisons: it sorts pieces and
// merges them.
func sortStable[T any](ctx context.Context, items []T, compare func(a, b T) int) error {
	for from := 0; from < len(items); from += sortedRun {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		slices.SortStableFunc(items[from:min(from+sortedRun, len(items))], compare)
	}
	if len(items) <= sortedRun {
		return nil
	}
	from, to := items, make([]T, len(items))
	for width := sortedRun; width < len(items); width *= 2 {
		for i := 0; i < len(items); i += 2 * width {
			if ctx.Err() != nil {
				return contextError(ctx)
			}
			middle, end := min(i+width, len(items)), min(i+2*width, len(items))
			merge(to[i:end], from[i:middle], from[middle:end], compare)
		}
		from, to = to, from
	}
	copy(items, from)
	return nil
}

// merge fills to with the items of two sorted lists; of equal ones, those of the first come first.
func merge[T any](to, a, b []T, compare func(a, b T) int) {
	for len(a) > 0 && len(b) > 0 {
		if compare(b[0], a[0]) < 0 {
			to[0], b = b[0], b[1:]
		} else {
			to[0], a = a[0], a[1:]
		}
		to = to[1:]
	}
	copy(to, a)
	copy(to[len(a):], b)
}

// ranked is a row with the rank of its first key, so that most comparisons read no more than this.
type ranked struct {
	rank uint64
	row  int32
}

// The bits of a rank: what the value is, and how it begins.
const (
	kindBits  = 3
	firstBits = 64 - kindBits
)

// rank returns a number that never contradicts the order of values. If two ranks are equal the order is unknown, unless all values are
// exact numbers: then these are equal too. Null and missing values are last in both directions.
func rank(v *value, direction int, exact bool) uint64 {
	if v.isAbsent() {
		return math.MaxUint64
	}
	r := leadingBits(v)
	if !exact {
		r = uint64(v.kind)<<firstBits | r>>kindBits
	}
	if direction < 0 {
		r = math.MaxUint64 - 1 - r
	}
	return r
}

// leadingBits returns the beginning of a value as a number of 64 bits, in the order of values.
func leadingBits(v *value) uint64 {
	switch v.kind {
	case kindNumber:
		f := v.float
		if !v.isExact {
			f, _ = v.decimal().Float64() // out of range it is infinite, or zero
		}
		bits := math.Float64bits(f + 0) // no -0
		if bits>>63 == 1 {
			return ^bits
		}
		return bits | 1<<63
	case kindOther:
		return 0
	default:
		var head [8]byte
		copy(head[:], v.text)
		return binary.BigEndian.Uint64(head[:])
	}
}
