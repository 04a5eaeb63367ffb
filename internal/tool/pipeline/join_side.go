package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// maxColumns bounds the different fields of the rows of one side.
const maxColumns = 1000

// joinSide is one of the two datasets of a join.
type joinSide struct {
	name string // left or right
	rows []row
	keys []*path
}

// keyTypes tells the types of the values of a key.
type keyTypes struct {
	given   bool // some row has it
	numeric bool // all are numbers, or strings that are
	number  bool // at least one is no string
}

// read looks at all keys of a side. A key that no row has is a fault.
func (s *joinSide) read(ctx context.Context) ([]keyTypes, error) {
	seen := make([]keyTypes, len(s.keys))
	for j := range seen {
		seen[j].numeric = true
	}
	for i := range s.rows {
		r, err := objectRow(ctx, s.rows, i)
		if err != nil {
			if _, isFault := errors.AsType[*fault](err); isFault {
				return nil, nestField(err, s.name)
			}
			return nil, err
		}
		for j, k := range s.keys {
			raw, ok := k.find(r)
			seen[j].given = seen[j].given || ok
			if v := valueOf(raw); !v.isAbsent() {
				seen[j].numeric = seen[j].numeric && v.isNumeric()
				seen[j].number = seen[j].number || v.kind == kindNumber
			}
		}
	}
	for j := range seen {
		if !seen[j].given && len(s.rows) > 0 {
			return nil, invalid("on", "no row of the %s side has a field %q; the first row has %s", s.name, clip.Bytes(s.keys[j].text, maxQuote), fieldsOf(s.rows))
		}
	}
	return seen, nil
}

// key appends the key of a row; false when a part of it is null or missing.
func (s *joinSide) key(key []byte, r row, numeric []bool) ([]byte, bool) {
	for j, k := range s.keys {
		raw, _ := k.find(r)
		v := valueOf(raw)
		if v.isAbsent() {
			return key, false
		}
		if numeric[j] {
			v.toNumber()
		}
		key = appendPart(key, &v)
	}
	return key, true
}

// table finds the rows of a key: the first, and from each the next.
type table struct {
	first map[string]int32
	next  []int32 // -1: none
}

// hash returns the table of a side. All keys together are bounded.
func (s *joinSide) hash(ctx context.Context, left int64, numeric []bool) (*table, error) {
	t := &table{first: make(map[string]int32, len(s.rows)), next: make([]int32, len(s.rows))}
	var key []byte
	for i := len(s.rows) - 1; i >= 0; i-- { // backwards, so that chains are in the order of rows
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		t.next[i] = -1
		var ok bool
		if key, ok = s.key(key[:0], s.rows[i], numeric); !ok {
			continue
		}
		if n, known := t.first[string(key)]; known {
			t.next[i] = n
		} else if left -= int64(len(key)); left < 0 {
			return nil, faultf(agent.CodeOverflow, "on", "the keys of the right side are too long together")
		}
		t.first[string(key)] = int32(i) //nolint:gosec // rows are bounded
	}
	return t, nil
}

// names lists the different fields of a side, in the order in which they appear.
func (s *joinSide) names(ctx context.Context) ([]string, error) {
	var list []string
	known := map[string]bool{}
	var m dataset.Member
	for i, r := range s.rows {
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		for c := dataset.MembersOf(r); c.Next(&m); {
			if seen, _ := dataset.Lookup(&m, known); seen {
				continue
			}
			if len(list) == maxColumns {
				return nil, tooManyNames(s.name)
			}
			known[m.Name()] = true
			list = append(list, m.Name())
		}
	}
	return list, nil
}

// parts holds what right rows add to left ones: members with a comma before each. Each is made when it is first needed.
type parts struct {
	rows   []row
	made   [][]byte
	labels map[string][]byte // of the result, by the right side's name; none: the field is left out
	nulls  []byte
}

// parts names the fields of the right side, once for all rows.
func (s *join) parts(ctx context.Context, l, rt *joinSide) (*parts, error) {
	left, err := l.names(ctx)
	if err != nil {
		return nil, err
	}
	right, err := rt.names(ctx)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool, len(left)+len(right))
	for _, name := range slices.Concat(left, right) {
		taken[name] = true
	}
	p := &parts{rows: rt.rows, made: make([][]byte, len(rt.rows)), labels: make(map[string][]byte, len(right))}
	for _, name := range right {
		if slices.ContainsFunc(s.keys, func(k joinKey) bool { return k.left.text == name && k.right.text == name }) {
			continue
		}
		to := name
		if slices.Contains(left, name) {
			for to += "_right"; taken[to]; {
				to += "_right"
			}
			taken[to] = true
		}
		p.labels[name] = label(to)
		p.nulls = append(append(append(p.nulls, ','), p.labels[name]...), null()...)
	}
	return p, nil
}

// membersOf returns what right row n adds.
func (p *parts) membersOf(n int) []byte {
	if p.made[n] != nil {
		return p.made[n]
	}
	part := make([]byte, 0, len(p.rows[n])+16)
	var m dataset.Member
	for c := dataset.MembersOf(p.rows[n]); c.Next(&m); {
		if label, ok := dataset.Lookup(&m, p.labels); ok {
			part = append(append(append(part, ','), label...), p.rows[n][m.From:m.To]...)
		}
	}
	p.made[n] = part
	return part
}
