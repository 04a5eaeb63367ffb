package jq

import (
	"encoding/json"
	"math/big"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
)

// guard looks at the input and the arguments of what comes next.
type guard func(v any, args []any) *agent.Error

// guards are the functions _g_… of guards.jq, by name; arity says with how many arguments.
func guards() map[string]struct {
	arity int
	look  guard
} {
	type g = struct {
		arity int
		look  guard
	}
	return map[string]g{
		"_g_tree":      {0, func(v any, _ []any) *agent.Error { return tree(v) }},
		"_g_text":      {0, func(v any, _ []any) *agent.Error { return text(v, maxText) }},
		"_g_piece":     {1, piece},
		"_g_string":    {0, func(v any, _ []any) *agent.Error { return stringGuard(v, maxText) }},
		"_g_digits":    {0, func(v any, _ []any) *agent.Error { return stringGuard(v, 400) }},
		"_g_format":    {1, func(_ any, args []any) *agent.Error { return stringGuard(args[0], 1000) }},
		"_g_list":      {0, func(v any, _ []any) *agent.Error { return list(v) }},
		"_g_join":      {1, join},
		"_g_add":       {0, func(v any, _ []any) *agent.Error { return sum(v) }},
		"_g_transpose": {0, func(v any, _ []any) *agent.Error { return transpose(v) }},
		"_g_pair":      {1, func(v any, args []any) *agent.Error { return work(v, args[0]) }},
		"_g_contains":  {1, contains},
		"_g_path":      {1, func(_ any, args []any) *agent.Error { return path(args[0]) }},
		"_g_paths":     {1, func(_ any, args []any) *agent.Error { return paths(args[0]) }},
		"_g_plus":      {2, func(_ any, args []any) *agent.Error { return plus(args[0], args[1]) }},
		"_g_minus":     {2, func(_ any, args []any) *agent.Error { return minus(args[0], args[1]) }},
		"_g_times":     {2, func(_ any, args []any) *agent.Error { return times(args[0], args[1]) }},
	}
}

// index is _g_index: the value of its argument, for .[…].
func index(_ any, args []any) any {
	if err := position(args[0]); err != nil {
		return err
	}
	if list, ok := args[0].([]any); ok && len(list) > 10 {
		return tooMuch("an array of %d values to look for is too long in [], use indices", len(list))
	}
	return args[0]
}

func position(v any) *agent.Error {
	switch v := v.(type) {
	case int, float64, *big.Int, json.Number:
		if i, _ := gojq.ToInt(v); i > maxIndex {
			return tooMuch("the index %d is above %d", i, maxIndex)
		}
	}
	return nil
}

func path(v any) *agent.Error {
	list, ok := v.([]any)
	if !ok {
		return nil // gojq says what is wrong
	}
	if len(list) > maxDepth {
		return tooMuch("a path is longer than %d", maxDepth)
	}
	for _, e := range list {
		if err := position(e); err != nil {
			return err
		}
	}
	return nil
}

func paths(v any) *agent.Error {
	list, _ := v.([]any)
	for _, p := range list {
		if err := path(p); err != nil {
			return err
		}
	}
	return nil
}

func piece(v any, args []any) *agent.Error {
	n, _ := gojq.ToInt(args[0])
	return text(v, maxText/max(n, 1))
}

func stringGuard(v any, most int) *agent.Error {
	if s, ok := v.(string); ok {
		return short(s, most)
	}
	return nil
}

func list(v any) *agent.Error {
	if l, ok := v.([]any); ok && len(l) > maxNodes {
		return tooMuch("an array has more than %d values", maxNodes)
	}
	return nil
}

// join bounds the text: a long separator between many short strings.
func join(v any, args []any) *agent.Error {
	separator, _ := args[0].(string)
	n := 0
	err := eachValue(v, func(e any) *agent.Error {
		n += len(separator) + length(e)
		return fitsText(n)
	})
	if err != nil {
		return err
	}
	return sum(v)
}

func fitsText(n int) *agent.Error {
	if n > maxText {
		return tooMuch("the text would be longer than %d bytes", maxText)
	}
	return nil
}

// length is how long a value is by itself: a string's bytes, an array's or object's values.
func length(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case *big.Int:
		return v.BitLen() / 3
	default:
		return 5
	}
}

// sum bounds what add makes: one array may be the same long one a million times.
func sum(v any) *agent.Error {
	bytes, values := 0, 0
	return eachValue(v, func(e any) *agent.Error {
		switch e := e.(type) {
		case string:
			bytes += len(e)
		case []any, map[string]any:
			values += length(e)
		}
		if values > maxNodes {
			return tooMuch("the sum would have more than %d values", maxNodes)
		}
		return fitsText(bytes)
	})
}

func eachValue(v any, look func(e any) *agent.Error) *agent.Error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := look(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := look(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func transpose(v any) *agent.Error {
	rows, _ := v.([]any)
	longest := 0
	for _, r := range rows {
		longest = max(longest, length(r))
	}
	if longest*len(rows) > maxNodes {
		return tooMuch("the transposed table would have more than %d values", maxNodes)
	}
	return nil
}

func contains(v any, args []any) *agent.Error {
	_, text := v.(string)
	if _, both := args[0].(string); text && both {
		return nil
	}
	return work(v, args[0])
}

func plus(l, r any) *agent.Error {
	switch l := l.(type) {
	case string:
		if r, ok := r.(string); ok {
			return fitsText(len(l) + len(r))
		}
	case []any:
		if r, ok := r.([]any); ok && len(l)+len(r) > maxNodes {
			return tooMuch("the array would have more than %d values", maxNodes)
		}
	}
	return nil
}

func minus(l, r any) *agent.Error {
	_, one := l.([]any)
	if _, both := r.([]any); one && both {
		return work(l, r)
	}
	return nil
}

func times(l, r any) *agent.Error {
	if _, ok := r.(string); ok {
		l, r = r, l
	}
	switch v := l.(type) {
	case string:
		if n, ok := gojq.ToFloat64(r); ok && n*float64(len(v)) > maxText {
			return tooMuch("the text would be longer than %d bytes", maxText)
		}
	case map[string]any:
		if err := tree(l); err != nil {
			return err
		}
		return tree(r)
	}
	if bits(l)+bits(r) > maxBig {
		return tooMuch("the product would have more than %d bits", maxBig)
	}
	return nil
}

func bits(v any) int {
	switch v := v.(type) {
	case *big.Int:
		return v.BitLen()
	case json.Number:
		return 4 * len(v)
	default:
		return 0
	}
}

// comparison is an operator on what two trees are to each other.
func comparison(holds func(order int) bool) func(any, []any) any {
	return func(_ any, args []any) any {
		for _, v := range args {
			if err := tree(v); err != nil {
				return err
			}
		}
		return holds(compare(args[0], args[1]))
	}
}
