package expr

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of lists and objects that are rendered as JSON.
const (
	maxJSONDepth  = 32
	maxJSONValues = 100_000
)

// text returns the value of the expression as text. Its error is errMissingValue for null.
func (e *expression) text(ctx context.Context, s *activation) (string, error) {
	v, err := e.eval(ctx, s)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case types.Null:
		return "", errMissingValue
	case types.String:
		return string(v), nil
	case types.Double:
		return strconv.FormatFloat(float64(v), 'f', -1, 64), nil
	case traits.Mapper, traits.Lister:
		return jsonText(v)
	default:
		s, ok := v.ConvertToType(types.StringType).(types.String)
		if !ok {
			return "", agent.Invalid("", "a value of type %s has no text", v.Type().TypeName())
		}
		return string(s), nil
	}
}

// jsonText returns a list or an object as JSON.
func jsonText(v ref.Val) (string, error) {
	remaining := maxJSONValues
	value, err := jsonValue(v, &remaining, maxJSONDepth)
	if err != nil {
		return "", agent.Invalid("", "%w", err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "", agent.Invalid("", "cannot be written as JSON: %w", err)
	}
	return string(raw), nil
}

// jsonValue converts a CEL value to a value that encoding/json can write. remaining is the number of values that may still be converted.
func jsonValue(v ref.Val, remaining *int, depth int) (any, error) {
	*remaining--
	if *remaining < 0 || depth == 0 {
		return nil, fmt.Errorf("has more than %d values, or is deeper than %d", maxJSONValues, maxJSONDepth)
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil //nolint:nilnil // null is a value
	case types.Bool, types.Int, types.Uint, types.String:
		return v.Value(), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil //nolint:nilnil // JSON has no such number
		}
		return float64(v), nil
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.ConvertToType(types.StringType).(types.String)
			if !ok {
				return nil, fmt.Errorf("has a member whose name is of type %s", key.Type().TypeName())
			}
			member, err := jsonValue(v.Get(key), remaining, depth-1)
			if err != nil {
				return nil, err
			}
			out[string(name)] = member
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := jsonValue(it.Next(), remaining, depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, element)
		}
		return out, nil
	default:
		s, ok := v.ConvertToType(types.StringType).(types.String)
		if !ok {
			return nil, fmt.Errorf("has a value of type %s", v.Type().TypeName())
		}
		return string(s), nil
	}
}
