package routing

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// scalar reports whether a decoded JSON value is one that values can be equal to.
func scalar(v any) bool {
	switch v.(type) {
	case nil, bool, float64, string:
		return true
	default:
		return false
	}
}

// equal compares a scalar with what a request holds.
func equal(want, got any) bool {
	switch want := want.(type) {
	case nil:
		return got == nil
	case bool:
		b, ok := got.(bool)
		return ok && b == want
	case string:
		s, ok := got.(string)
		return ok && s == want
	case float64:
		n, ok := number(got)
		return ok && n == want
	default:
		return false
	}
}

// number takes the numbers that a decoder makes, and those that Go code writes.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.CanFloat():
		return r.Float(), true
	default:
		return 0, false
	}
}

// lookup finds a dotted path in nested maps. At every level a key that is all of the rest wins over one that is its first part. What
// is not there is nil.
func lookup(m map[string]any, path string) any {
	for {
		if v, ok := m[path]; ok {
			return v
		}
		first, rest, nested := strings.Cut(path, ".")
		if !nested {
			return nil
		}
		inner, ok := m[first].(map[string]any)
		if !ok {
			return nil
		}
		m, path = inner, rest
	}
}

// show writes a value for people.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return strconv.Quote(clip.Bytes(v, maxShown))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	if n, ok := number(v); ok {
		return strconv.FormatFloat(n, 'g', -1, 64)
	}
	return fmt.Sprintf("a %T", v)
}

// maxShown bounds what an explanation quotes of a request or a table, in bytes.
const maxShown = 80
