package jq

import (
	"encoding/json"
	"math/big"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
)

// guard is a function of guards.jq: it returns its input unless check refuses the values that the guarded function would get.
type guard struct {
	name  string
	arity int
	check func(input any, args []any) *agent.Error
}

func guards() []guard {
	return []guard{
		{"_g_tree", 0, func(v any, _ []any) *agent.Error { return checkTree(v) }},
		{"_g_text", 0, func(v any, _ []any) *agent.Error { return checkText(v, maxText) }},
		{"_g_string", 0, func(v any, _ []any) *agent.Error { return checkString(v, maxText) }},
		{"_g_digits", 0, func(v any, _ []any) *agent.Error { return checkString(v, 400) }},
		{"_g_list", 0, func(v any, _ []any) *agent.Error { return checkList(v) }},
		{"_g_add", 0, func(v any, _ []any) *agent.Error { return checkSum(v) }},
		{"_g_transpose", 0, func(v any, _ []any) *agent.Error { return checkTranspose(v) }},
		{"_g_piece", 1, checkPiece},
		{"_g_join", 1, checkJoin},
		{"_g_contains", 1, checkContains},
		{"_g_format", 1, func(_ any, args []any) *agent.Error { return checkString(args[0], 1000) }},
		{"_g_pair", 1, func(v any, args []any) *agent.Error { return checkPair(v, args[0]) }},
		{"_g_path", 1, func(_ any, args []any) *agent.Error { return checkPath(args[0]) }},
		{"_g_paths", 1, func(_ any, args []any) *agent.Error { return checkPaths(args[0]) }},
		{"_g_plus", 2, func(_ any, args []any) *agent.Error { return checkPlus(args[0], args[1]) }},
		{"_g_minus", 2, func(_ any, args []any) *agent.Error { return checkMinus(args[0], args[1]) }},
		{"_g_times", 2, func(_ any, args []any) *agent.Error { return checkTimes(args[0], args[1]) }},
		{"_g_trees", 2, func(_ any, args []any) *agent.Error { return checkTrees(args...) }},
	}
}

// index is _g_index: it returns its argument, an index in [].
func index(_ any, args []any) any {
	if err := checkPosition(args[0]); err != nil {
		return err
	}
	if list, ok := args[0].([]any); ok && len(list) > 10 {
		return tooMuch("an array of %d values to look for is too long in [], use indices", len(list))
	}
	return args[0]
}

func checkPosition(v any) *agent.Error {
	switch v := v.(type) {
	case int, float64, *big.Int, json.Number:
		if i, _ := gojq.ToInt(v); i > maxIndex {
			return tooMuch("the index %d is above %d", i, maxIndex)
		}
	}
	return nil
}

// checkPath accepts what is no path: gojq says what is wrong with it.
func checkPath(v any) *agent.Error {
	list, _ := v.([]any)
	if len(list) > maxDepth {
		return tooMuch("a path is longer than %d", maxDepth)
	}
	return checkEach(list, checkPosition)
}

func checkPaths(v any) *agent.Error {
	list, _ := v.([]any)
	return checkEach(list, checkPath)
}

func checkPiece(v any, args []any) *agent.Error {
	n, _ := gojq.ToInt(args[0])
	return checkText(v, maxText/max(n, 1))
}

func checkString(v any, maxBytes int) *agent.Error {
	if s, ok := v.(string); ok && len(s) > maxBytes {
		return tooMuch("a string is longer than %d bytes", maxBytes)
	}
	return nil
}

func checkList(v any) *agent.Error {
	if l, ok := v.([]any); ok && len(l) > maxNodes {
		return tooMuch("an array has more than %d values", maxNodes)
	}
	return nil
}

// checkJoin bounds the text: a long separator between many short strings.
func checkJoin(v any, args []any) *agent.Error {
	separator, _ := args[0].(string)
	n := 0
	err := checkEach(v, func(e any) *agent.Error {
		n += len(separator) + ownLength(e)
		return checkTextLength(n)
	})
	if err != nil {
		return err
	}
	return checkSum(v)
}

func checkTextLength(n int) *agent.Error {
	if n > maxText {
		return tooMuch("the text would be longer than %d bytes", maxText)
	}
	return nil
}

// ownLength returns the bytes of a string, and how many values an array or object has.
func ownLength(v any) int {
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

// checkSum bounds what add makes: an array may hold the same long one a million times.
func checkSum(v any) *agent.Error {
	bytes, values := 0, 0
	return checkEach(v, func(e any) *agent.Error {
		switch e := e.(type) {
		case string:
			bytes += len(e)
		case []any, map[string]any:
			values += ownLength(e)
		}
		if values > maxNodes {
			return tooMuch("the sum would have more than %d values", maxNodes)
		}
		return checkTextLength(bytes)
	})
}

// checkEach checks the values of an array or object.
func checkEach(v any, check func(e any) *agent.Error) *agent.Error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := check(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := check(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkTranspose(v any) *agent.Error {
	rows, _ := v.([]any)
	longest := 0
	for _, r := range rows {
		longest = max(longest, ownLength(r))
	}
	if longest*len(rows) > maxNodes {
		return tooMuch("the transposed table would have more than %d values", maxNodes)
	}
	return nil
}

func checkContains(v any, args []any) *agent.Error {
	_, isText := v.(string)
	if _, both := args[0].(string); isText && both {
		return nil
	}
	return checkPair(v, args[0])
}

func checkPlus(l, r any) *agent.Error {
	switch l := l.(type) {
	case string:
		if r, ok := r.(string); ok {
			return checkTextLength(len(l) + len(r))
		}
	case []any:
		if r, ok := r.([]any); ok && len(l)+len(r) > maxNodes {
			return tooMuch("the array would have more than %d values", maxNodes)
		}
	}
	return nil
}

func checkMinus(l, r any) *agent.Error {
	_, isList := l.([]any)
	if _, both := r.([]any); isList && both {
		return checkPair(l, r)
	}
	return nil
}

func checkTimes(l, r any) *agent.Error {
	if _, ok := r.(string); ok {
		l, r = r, l
	}
	switch v := l.(type) {
	case string:
		if n, ok := gojq.ToFloat64(r); ok && n*float64(len(v)) > maxText {
			return tooMuch("the text would be longer than %d bytes", maxText)
		}
	case map[string]any:
		return checkTrees(l, r)
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

// checkPair refuses two values if it takes too long to compare each part of one with each part of the other.
func checkPair(l, r any) *agent.Error {
	if isScalar(l) && isScalar(r) && size(l)*size(r) <= maxWork {
		return nil
	}
	if err := checkTrees(l, r); err != nil {
		return err
	}
	if size(l)*size(r) > maxWork {
		return tooMuch("two values of these sizes are too much to compare part by part")
	}
	return nil
}

// size returns how many parts a value has that [checkTree] accepts, and the bytes of a string.
func size(v any) int {
	if s, ok := v.(string); ok {
		return len(s) + 1
	}
	if isScalar(v) {
		return 1
	}
	g := newGauge()
	g.walk(v, 0)
	return g.nodes + g.bytes
}
