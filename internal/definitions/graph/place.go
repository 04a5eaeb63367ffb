package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// nowhere says why a pointer leads to nothing; empty when it leads to something.
type nowhere string

const (
	noPlace nowhere = "there is no such place"
	behind  nowhere = "there is nothing at -, which is behind the last one"
)

// lookup returns what a JSON Pointer leads to. Whether a part of it is an index or a name is the document's to say: objects may have members
// that are called 01 or -1, or nothing at all.
func lookup(document json.RawMessage, pointer string) (json.RawMessage, nowhere) {
	at := document
	for token := range jsontext.Pointer(pointer).Tokens() {
		if at[0] != '{' && at[0] != '[' {
			return nil, noPlace
		}
		if at[0] == '{' {
			var members map[string]json.RawMessage
			if json.Unmarshal(at, &members) != nil {
				return nil, noPlace
			}
			member, known := members[token]
			if !known {
				return nil, noPlace
			}
			at = member
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(at, &list) != nil {
			return nil, noPlace
		}
		if token == "-" {
			return nil, behind
		}
		i, why := index(token)
		if why == "" && i >= len(list) {
			why = noPlace
		}
		if why != "" {
			return nil, why
		}
		at = list[i]
	}
	return at, ""
}

// room says what keeps something from being added at a pointer that is not empty.
func room(document json.RawMessage, pointer string) nowhere {
	p := jsontext.Pointer(pointer)
	parent, why := lookup(document, string(p.Parent()))
	token := p.LastToken()
	switch {
	case why != "":
		return why
	case parent[0] == '{', parent[0] == '[' && token == "-":
		return ""
	case parent[0] != '[':
		return noPlace
	}
	var list []json.RawMessage
	i, why := index(token)
	if why == "" && (json.Unmarshal(parent, &list) != nil || i > len(list)) {
		why = noPlace
	}
	return why
}

// index reads the place in a list. It has one way to be written.
func index(token string) (int, nowhere) {
	const digits = 9
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || len(token) > digits || strconv.Itoa(i) != token {
		return 0, nowhere(fmt.Sprintf("it has the index %q: want a number from 0, without a sign and leading zeros", clip(token)))
	}
	return i, ""
}

// same compares JSON as RFC 6902 §4.6 says: the order of members does not matter, nor how a number is written.
func same(a, b json.RawMessage) bool {
	var values [2]any
	for i, raw := range []json.RawMessage{a, b} {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return equal(values[0], values[1])
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && decimal(a) == decimal(b)
	default:
		return a == b // a text, true, false or null
	}
}

// decimal writes a number in one way: its digits without zeros around them, and the power of ten that they are multiplied with. Nothing is
// rounded, and no number of 1e999999999 is ever written out.
func decimal(n json.Number) string {
	text, negative := strings.CutPrefix(string(n), "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0" // -0 as well
	}
	power, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok {
		power = new(big.Int)
	}
	bare := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(bare)-len(fraction))))
	if negative {
		bare = "-" + bare
	}
	return bare + "e" + power.String()
}
