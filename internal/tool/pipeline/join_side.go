package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// maxColumns is the maximum number of different fields of a side.
const maxColumns = 1000

// joinSide is one of the two datasets of a join.
type joinSide struct {
	name string // left or right
	rows []row
	keys []*path
}

// keyType describes the values of a key.
type keyType struct {
	found      bool // some row has the key
	allNumeric bool // all values are numbers or numeric strings
	hasNumber  bool // some value is a number
}

// keyTypes returns the types of the side's keys. A key that no row has is a fault.
func (s *joinSide) keyTypes(ctx context.Context) ([]keyType, error) {
	types := make([]keyType, len(s.keys))
	for j := range types {
		types[j].allNumeric = true
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
			types[j].found = types[j].found || ok
			if v := valueOf(raw); !v.isAbsent() {
				types[j].allNumeric = types[j].allNumeric && v.isNumeric()
				types[j].hasNumber = types[j].hasNumber || v.kind == kindNumber
			}
		}
	}
	for j := range types {
		if !types[j].found && len(s.rows) > 0 {
			return nil, invalid("on", "no row of the %s side has a field %q; the first row has %s", s.name, clip.Bytes(s.keys[j].text, maxQuote), listFields(s.rows))
		}
	}
	return types, nil
}

// appendRowKey appends the key of a row. It returns false if a part of the key is null or missing.
func (s *joinSide) appendRowKey(key []byte, r row, isNumeric []bool) ([]byte, bool) {
	for j, k := range s.keys {
		raw, _ := k.find(r)
		v := valueOf(raw)
		if v.isAbsent() {
			return key, false
		}
		if isNumeric[j] {
			v.toNumber()
		}
		key = appendKeyPart(key, &v)
	}
	return key, true
}

// rowIndex lists the rows of each key as a chain: the first row, and for each row the next one with the same key.
type rowIndex struct {
	first map[string]int32
	next  []int32 // -1: there is no further row
}

// indexRows returns the index of a side. maxBytes bounds all keys together.
func (s *joinSide) indexRows(ctx context.Context, maxBytes int64, isNumeric []bool) (*rowIndex, error) {
	index := &rowIndex{first: make(map[string]int32, len(s.rows)), next: make([]int32, len(s.rows))}
	var key []byte
	for i := len(s.rows) - 1; i >= 0; i-- { // backwards, so that chains are in the order of the rows
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		index.next[i] = -1
		var ok bool
		if key, ok = s.appendRowKey(key[:0], s.rows[i], isNumeric); !ok {
			continue
		}
		if n, found := index.first[string(key)]; found {
			index.next[i] = n
		} else if maxBytes -= int64(len(key)); maxBytes < 0 {
			return nil, faultf(agent.CodeOverflow, "on", "the keys of the right side are too long together")
		}
		index.first[string(key)] = int32(i) //nolint:gosec // rows are bounded
	}
	return index, nil
}

// fieldNames returns the names of the side's fields in the order in which they appear.
func (s *joinSide) fieldNames(ctx context.Context) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	var m dataset.Member
	for i, r := range s.rows {
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		for c := dataset.MembersOf(r); c.Next(&m); {
			if ok, _ := dataset.Lookup(&m, seen); ok {
				continue
			}
			if len(names) == maxColumns {
				return nil, faultf(agent.CodeOverflow, s.name, "has more than %d different fields", maxColumns)
			}
			seen[m.Name()] = true
			names = append(names, m.Name())
		}
	}
	return names, nil
}

// rightMembers holds the members that right rows add to left rows, with a comma before each.
type rightMembers struct {
	rows   []row
	cached [][]byte          // by row; nil: not encoded yet
	labels map[string][]byte // of the result, by the name in the right row; fields without one are left out
	nulls  []byte            // the members of a left row without a match
}

// rightMembers chooses the names that the fields of the right side have in the result.
func (s *join) rightMembers(ctx context.Context, left, right *joinSide) (*rightMembers, error) {
	leftNames, err := left.fieldNames(ctx)
	if err != nil {
		return nil, err
	}
	rightNames, err := right.fieldNames(ctx)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool, len(leftNames)+len(rightNames))
	for _, name := range slices.Concat(leftNames, rightNames) {
		taken[name] = true
	}
	p := &rightMembers{rows: right.rows, cached: make([][]byte, len(right.rows)), labels: make(map[string][]byte, len(rightNames))}
	for _, name := range rightNames {
		if slices.ContainsFunc(s.keys, func(k joinKey) bool { return k.left.text == name && k.right.text == name }) {
			continue
		}
		newName := name
		if slices.Contains(leftNames, name) {
			for newName += "_right"; taken[newName]; {
				newName += "_right"
			}
			taken[newName] = true
		}
		p.labels[name] = memberLabel(newName)
		p.nulls = append(append(append(p.nulls, ','), p.labels[name]...), null()...)
	}
	return p, nil
}

// ofRow returns the members that right row n adds.
func (p *rightMembers) ofRow(n int) []byte {
	if p.cached[n] != nil {
		return p.cached[n]
	}
	members := make([]byte, 0, len(p.rows[n])+16)
	var m dataset.Member
	for c := dataset.MembersOf(p.rows[n]); c.Next(&m); {
		if label, ok := dataset.Lookup(&m, p.labels); ok {
			members = append(append(append(members, ','), label...), p.rows[n][m.From:m.To]...)
		}
	}
	p.cached[n] = members
	return members
}
