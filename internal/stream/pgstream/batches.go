package pgstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// batchSet is a set of batch numbers, as PostgreSQL's int8multirange: half-open ranges in order, none touching the next.
type batchSet [][2]int64

// search returns the first range that ends at or behind a number.
func (b batchSet) search(n int64) int {
	i, _ := slices.BinarySearchFunc(b, n, func(r [2]int64, n int64) int {
		if r[1] < n {
			return -1
		}
		return 1
	})
	return i
}

func (b batchSet) has(n int64) bool {
	for _, r := range b[b.search(n):] {
		if n < r[1] {
			return r[0] <= n
		}
	}
	return false
}

func (b *batchSet) add(n int64) {
	if b.has(n) {
		return
	}
	i := b.search(n)
	joinsLeft := i < len(*b) && (*b)[i][1] == n
	right := i
	if joinsLeft {
		right++
	}
	joinsRight := right < len(*b) && (*b)[right][0] == n+1
	switch {
	case joinsLeft && joinsRight:
		(*b)[i][1] = (*b)[right][1]
		*b = slices.Delete(*b, right, right+1)
	case joinsLeft:
		(*b)[i][1]++
	case joinsRight:
		(*b)[right][0]--
	default:
		*b = slices.Insert(*b, i, [2]int64{n, n + 1})
	}
}

// String writes the set as PostgreSQL reads it: {[1,4),[6,7)}.
func (b batchSet) String() string {
	text := []byte{'{'}
	for i, r := range b {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '[')
		text = strconv.AppendInt(text, r[0], 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, r[1], 10)
		text = append(text, ')')
	}
	return string(append(text, '}'))
}

// parseBatches parses PostgreSQL's form of the set, and skips ranges that it cannot parse.
func parseBatches(text string) batchSet {
	var set batchSet
	for part := range strings.SplitSeq(strings.Trim(text, "{}"), "),") {
		var r [2]int64
		if _, err := fmt.Sscanf(part, "[%d,%d", &r[0], &r[1]); err == nil {
			set = append(set, r)
		}
	}
	return set
}
