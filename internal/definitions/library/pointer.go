package library

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// pointerProblem is the reason why a pointer leads to no value, empty if it leads to one.
type pointerProblem string

const (
	notFound pointerProblem = "there is no such place"
	pastEnd  pointerProblem = "there is nothing at -, which is behind the last one"
)

// lookupPointer returns the value that a JSON Pointer leads to. A token is an index in an array and a name in an object, even if it is 01, -1 or
// empty.
func lookupPointer(document json.RawMessage, pointer string) (json.RawMessage, pointerProblem) {
	value := document
	for token := range jsontext.Pointer(pointer).Tokens() {
		var problem pointerProblem
		switch value[0] {
		case '{':
			var members map[string]json.RawMessage
			_ = json.Unmarshal(value, &members) // a definition is well-formed
			value = members[token]
		case '[':
			value, problem = lookupElement(value, token)
		default:
			value = nil
		}
		switch {
		case problem != "":
			return nil, problem
		case value == nil:
			return nil, notFound
		}
	}
	return value, ""
}

// lookupElement returns the element of an array at the index that a token is, nil if there is none.
func lookupElement(array json.RawMessage, token string) (json.RawMessage, pointerProblem) {
	if token == "-" {
		return nil, pastEnd
	}
	i, problem := parseIndex(token)
	var list []json.RawMessage
	_ = json.Unmarshal(array, &list) // a definition is well-formed
	if problem != "" || i >= len(list) {
		return nil, problem
	}
	return list[i], ""
}

// checkAddTarget returns why no value can be added at a non-empty pointer, or an empty problem.
func checkAddTarget(document json.RawMessage, pointer string) pointerProblem {
	p := jsontext.Pointer(pointer)
	parent, problem := lookupPointer(document, string(p.Parent()))
	token := p.LastToken()
	switch {
	case problem != "":
		return problem
	case parent[0] == '{', (parent[0] == '[' && token == "-"):
		return ""
	case parent[0] != '[':
		return notFound
	}
	var list []json.RawMessage
	i, problem := parseIndex(token)
	if problem == "" && (json.Unmarshal(parent, &list) != nil || i > len(list)) {
		problem = notFound
	}
	return problem
}

// parseIndex returns a token as an index. Signs and leading zeros are not allowed.
func parseIndex(token string) (int, pointerProblem) {
	const digits = 9
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || len(token) > digits || strconv.Itoa(i) != token {
		return 0, pointerProblem(fmt.Sprintf("it has the index %q: want a number from 0, without a sign and leading zeros", clip.Bytes(token, maxQuoted)))
	}
	return i, ""
}

// equalJSON reports whether two JSON values are equal by RFC 6902 §4.6, which ignores the order of members and the notation of numbers.
func equalJSON(a, b json.RawMessage) bool {
	var values [2]any
	for i, raw := range []json.RawMessage{a, b} {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return equalValues(values[0], values[1])
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalValues)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalValues)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && canonicalNumber(a) == canonicalNumber(b)
	default:
		return a == b // a text, true, false or null
	}
}

// canonicalNumber returns a number as digits without leading and trailing zeros, and a power of ten. It neither rounds nor expands large exponents.
func canonicalNumber(n json.Number) string {
	unsigned, isNegative := strings.CutPrefix(string(n), "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(unsigned), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0" // also for -0
	}
	power, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok {
		power = new(big.Int)
	}
	trimmed := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(trimmed)-len(fraction))))
	if isNegative {
		trimmed = "-" + trimmed
	}
	return trimmed + "e" + power.String()
}
