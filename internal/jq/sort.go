package jq

import (
	"slices"

	"github.com/itchyny/gojq"
)

type keyed struct{ value, key any }

// sortByKeys returns values with their keys in the order of the keys, stably. It stops with the meter: a million values take seconds.
func (m *meter) sortByKeys(v, keys any) ([]keyed, error) {
	values, ok := v.([]any)
	by, ok2 := keys.([]any)
	if !ok || !ok2 {
		return nil, invalid("%s cannot be sorted, as it is not an array", gojqType(v))
	}
	if len(values) != len(by) {
		return nil, invalid("the keys to sort by are %d, the values %d", len(by), len(values))
	}
	if err := checkTree(by); err != nil {
		return nil, err
	}
	items := make([]keyed, len(values))
	for i := range values {
		items[i] = keyed{values[i], by[i]}
	}
	n := 0
	slices.SortStableFunc(items, func(a, b keyed) int {
		if n++; n%256 == 0 {
			m.checkBounds()
		}
		if m.stopped.Load() {
			return 0 // the sort ends soon, and the program with it
		}
		return gojq.Compare(a.key, b.key)
	})
	return items, nil
}

func (m *meter) sort(v any, args []any) any {
	items, err := m.sortByKeys(v, args[0])
	if err != nil {
		return err
	}
	out := make([]any, len(items))
	for i := range items {
		out[i] = items[i].value
	}
	return out
}

func (m *meter) unique(v any, args []any) any {
	items, err := m.sortByKeys(v, args[0])
	if err != nil {
		return err
	}
	out := []any{}
	for i := range items {
		if i == 0 || gojq.Compare(items[i-1].key, items[i].key) != 0 {
			out = append(out, items[i].value)
		}
	}
	return out
}

func (m *meter) group(v any, args []any) any {
	items, err := m.sortByKeys(v, args[0])
	if err != nil {
		return err
	}
	out := []any{}
	for i := range items {
		if i == 0 || gojq.Compare(items[i-1].key, items[i].key) != 0 {
			out = append(out, []any{})
		}
		last, _ := out[len(out)-1].([]any)
		out[len(out)-1] = append(last, items[i].value)
	}
	return out
}
