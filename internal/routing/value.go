package routing

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// isScalar reports whether a decoded JSON value is null, a boolean, a number or a string.
func isScalar(v any) bool {
	switch v.(type) {
	case nil, bool, float64, string:
		return true
	default:
		return false
	}
}

// equal reports whether a value of a request equals a scalar.
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

// number returns any Go number or [json.Number] as a float64, and false for other values.
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

// lookup returns the value at a dotted path in nested maps, nil if there is none. At each level, a key that equals the remaining path takes precedence
// over a key that is its first part.
func lookup(m map[string]any, path string) any {
	for {
		if v, ok := m[path]; ok {
			return v
		}
		first, remaining, isNested := strings.Cut(path, ".")
		if !isNested {
			return nil
		}
		inner, ok := m[first].(map[string]any)
		if !ok {
			return nil
		}
		m, path = inner, remaining
	}
}

// formatValue returns a value for an explanation or a fault.
func formatValue(v any) string {
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

// maxShown bounds a value that an explanation quotes, in bytes.
const maxShown = 80
