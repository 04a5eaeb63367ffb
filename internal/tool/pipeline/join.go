package pipeline

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

const maxKeys = 10

// join combines the rows of two datasets that have the same value in a field:
//
//	{"step":"join","left":"cas://sha256:…","right":"cas://sha256:…","on":"id"}
//	{"step":"join","right":"cas://sha256:…","on":"carrier=code","how":"left"}
//
// Without "left", the rows so far are the left side. "on" is a field of both sides, "left_field=right_field", or several of these separated
// by commas. The result is in the order of the left side, and for each left row in the order of the right side. A row has the fields of the
// left row, followed by those of the right row. A field of the right side that some left row also has gets the suffix _right, but a key with
// the same name on both sides occurs only once. Null and missing keys match nothing. "how" is inner (the default) or left, which keeps left
// rows without a match and sets the fields of the right side to null.
type join struct {
	left, right   string // references; left may be empty
	keys          []joinKey
	keepUnmatched bool // left rows
}

type joinKey struct{ left, right *path }

func decodeJoin(raw json.RawMessage) (step, error) {
	var in struct {
		Left  *string `json:"left"`
		Right *string `json:"right"`
		On    *string `json:"on"`
		How   *string `json:"how"`
	}
	if err := decodeFields(raw, &in); err != nil {
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
			s.keepUnmatched = true
		default:
			return nil, invalid("how", "want inner or left, got %q", clip.Bytes(*in.How, maxQuote))
		}
	}
	return s, s.parseOn(*in.On)
}

// parseOn sets the keys. It accepts == as well as =.
func (s *join) parseOn(on string) error {
	for part := range strings.SplitSeq(on, ",") {
		if len(s.keys) == maxKeys {
			return invalid("on", "has more than %d keys", maxKeys)
		}
		leftText, rightText, ok := strings.Cut(part, "=")
		if !ok {
			rightText = leftText
		}
		left, err := parsePath("on", strings.TrimSpace(leftText))
		if err != nil {
			return err
		}
		right, err := parsePath("on", strings.TrimSpace(strings.TrimPrefix(rightText, "=")))
		if err != nil {
			return err
		}
		s.keys = append(s.keys, joinKey{left, right})
	}
	return nil
}

func (s *join) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	if s.left != "" {
		var err error
		if rows, err = r.openDataset(ctx, "left", s.left); err != nil {
			return nil, err
		}
	}
	rightRows, err := r.openDataset(ctx, "right", s.right)
	if err != nil {
		return nil, err
	}
	left, right := &joinSide{name: "left", rows: rows}, &joinSide{name: "right", rows: rightRows}
	for _, k := range s.keys {
		left.keys, right.keys = append(left.keys, k.left), append(right.keys, k.right)
	}
	isNumeric, err := s.numericKeys(ctx, left, right)
	if err != nil {
		return nil, err
	}
	index, err := right.indexRows(ctx, r.cfg.MaxBytes, isNumeric)
	if err != nil {
		return nil, err
	}
	members, err := s.rightMembers(ctx, left, right)
	if err != nil {
		return nil, err
	}
	return s.joinSides(ctx, r, left, index, members, isNumeric)
}

// numericKeys reports for each key whether it compares as a number: both sides have only numbers and numeric strings, and not only strings.
func (s *join) numericKeys(ctx context.Context, left, right *joinSide) ([]bool, error) {
	leftTypes, err := left.keyTypes(ctx)
	if err != nil {
		return nil, err
	}
	rightTypes, err := right.keyTypes(ctx)
	if err != nil {
		return nil, err
	}
	isNumeric := make([]bool, len(s.keys))
	for j, l := range leftTypes {
		isNumeric[j] = l.allNumeric && rightTypes[j].allNumeric && (l.hasNumber || rightTypes[j].hasNumber)
	}
	return isNumeric, nil
}

// joinSides returns each left row with each of its right rows.
func (s *join) joinSides(ctx context.Context, r *run, left *joinSide, index *rowIndex, members *rightMembers, isNumeric []bool) ([]row, error) {
	w := r.newWriter(len(left.rows))
	var key []byte
	for i, from := range left.rows {
		if err := checkContext(ctx, i); err != nil {
			return nil, err
		}
		matched := false
		var ok bool
		if key, ok = left.appendRowKey(key[:0], from, isNumeric); ok {
			first, found := index.first[string(key)]
			for n := first; found && n >= 0; n = index.next[n] {
				if err := w.joinRows(from, members.ofRow(int(n))); err != nil {
					return nil, err
				}
				if err := checkContext(ctx, len(w.rows)); err != nil {
					return nil, err
				}
				matched = true
			}
		}
		if !matched && s.keepUnmatched {
			if err := w.joinRows(from, members.nulls); err != nil {
				return nil, err
			}
		}
	}
	return w.rows, nil
}

// joinRows writes a left row followed by members of the right side, which begin with a comma.
func (w *rowWriter) joinRows(left row, members []byte) error {
	w.beginRow(len(left) + len(members))
	body := left[:len(left)-1] // without the closing brace
	w.buf = append(w.buf, body...)
	if len(members) > 0 {
		if i := dataset.SkipSpace(body, 1); i == len(body) { // an object without members needs no comma
			members = members[1:]
		}
		w.buf = append(w.buf, members...)
	}
	w.buf = append(w.buf, '}')
	return w.endRow()
}
