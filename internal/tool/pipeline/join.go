package pipeline

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

const maxKeys = 10

// join puts rows of two datasets together where a field of both has the same value:
//
//	{"step":"join","left":"cas://sha256:…","right":"cas://sha256:…","on":"id"}
//	{"step":"join","right":"cas://sha256:…","on":"carrier=code","how":"left"}
//
// Without "left" the rows so far are the left side. "on" is a field of both, "left_field=right_field", or several of these with commas.
// Rows are in the order of the left side, those for one left row in the order of the right side. A row has the fields of the left row
// and then those of the right one; a field of the right side that some left row has too gets the suffix _right, and a key of the same
// name on both sides is there once. Null and missing keys match nothing. "how" is inner, or left: left rows without a match are
// kept, with null in the fields of the right side.
type join struct {
	left, right string // references; left may be empty
	keys        []joinKey
	outer       bool
}

type joinKey struct{ left, right *path }

func decodeJoin(raw json.RawMessage) (step, error) {
	var in struct {
		Left  *string `json:"left"`
		Right *string `json:"right"`
		On    *string `json:"on"`
		How   *string `json:"how"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
		return nil, err
	}
	s := &join{}
	switch {
	case in.Left != nil && *in.Left == "":
		return nil, invalid("left", "is empty")
	case in.Right == nil || *in.Right == "":
		return nil, invalid("right", "is required: the reference of a dataset")
	case in.On == nil:
		return nil, invalid("on", "is required: a field of both sides, or left_field=right_field")
	}
	if in.Left != nil {
		s.left = *in.Left
	}
	s.right = *in.Right
	if in.How != nil {
		switch *in.How {
		case "inner":
		case "left":
			s.outer = true
		default:
			return nil, invalid("how", "want inner or left, got %q", clip.Bytes(*in.How, maxQuote))
		}
	}
	return s, s.parseOn(*in.On)
}

func (s *join) parseOn(on string) error {
	for part := range strings.SplitSeq(on, ",") {
		if len(s.keys) == maxKeys {
			return invalid("on", "has more than %d keys", maxKeys)
		}
		left, right, two := strings.Cut(part, "=")
		if !two {
			right = left
		}
		l, err := parsePath("on", strings.TrimSpace(left))
		if err != nil {
			return err
		}
		r, err := parsePath("on", strings.TrimSpace(strings.TrimPrefix(right, "=")))
		if err != nil {
			return err
		}
		s.keys = append(s.keys, joinKey{l, r})
	}
	return nil
}

func (s *join) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	if s.left != "" {
		left, err := r.openDataset(ctx, "left", s.left)
		if err != nil {
			return nil, err
		}
		rows = left
	}
	right, err := r.openDataset(ctx, "right", s.right)
	if err != nil {
		return nil, err
	}
	l, rt := joinSide{name: "left", rows: rows}, joinSide{name: "right", rows: right}
	for _, k := range s.keys {
		l.keys, rt.keys = append(l.keys, k.left), append(rt.keys, k.right)
	}
	numeric, err := s.numeric(ctx, &l, &rt)
	if err != nil {
		return nil, err
	}
	t, err := rt.hash(ctx, r.cfg.MaxBytes, numeric)
	if err != nil {
		return nil, err
	}
	p, err := s.parts(ctx, &l, &rt)
	if err != nil {
		return nil, err
	}
	return s.probe(ctx, r, &l, t, p, numeric)
}

// numeric tells for each key whether it compares as a number: all values on both sides are numbers, some of them as strings.
func (s *join) numeric(ctx context.Context, l, rt *joinSide) ([]bool, error) {
	left, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	right, err := rt.read(ctx)
	if err != nil {
		return nil, err
	}
	numeric := make([]bool, len(s.keys))
	for j := range numeric {
		numeric[j] = left[j].numeric && right[j].numeric && (left[j].number || right[j].number)
	}
	return numeric, nil
}

// probe returns each left row with its right rows.
func (s *join) probe(ctx context.Context, r *run, l *joinSide, t *table, p *parts, numeric []bool) ([]row, error) {
	w := r.newWriter(len(l.rows))
	var key []byte
	for i, from := range l.rows {
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		matched := false
		var ok bool
		if key, ok = l.key(key[:0], from, numeric); ok {
			first, found := t.first[string(key)]
			for n := first; found && n >= 0; n = t.next[n] {
				if err := w.joinRows(from, p.membersOf(int(n))); err != nil {
					return nil, err
				}
				if err := checkContext(ctx, len(w.rows)); err != nil {
					return nil, err
				}
				matched = true
			}
		}
		if !matched && s.outer {
			if err := w.joinRows(from, p.nulls); err != nil {
				return nil, err
			}
		}
	}
	return w.rows, nil
}

// joinRows writes a left row with the members of a right one, which begin with a comma.
func (w *writer) joinRows(left row, right []byte) error {
	w.begin(len(left) + len(right))
	body := left[:len(left)-1] // without the brace
	w.buf = append(w.buf, body...)
	if len(right) > 0 {
		if i := dataset.SkipSpace(body, 1); i == len(body) { // {}: no comma
			right = right[1:]
		}
		w.buf = append(w.buf, right...)
	}
	w.buf = append(w.buf, '}')
	return w.end()
}

// tooManyNames returns the fault of a side with too many different fields.
func tooManyNames(side string) error {
	return faultf(agent.CodeOverflow, side, "has more than %d different fields", maxColumns)
}
