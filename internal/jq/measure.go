package jq

import (
	"encoding/json"
	"math/big"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
)

// The most that one instruction may work on. Values of gojq share their parts, so that what is small in memory can be endless when it
// is walked: these count what is walked.
const (
	maxNodes = 5_000_000 // values in a tree
	maxText  = 2 << 20   // bytes of a string
	maxDepth = 1_000     // of nesting: Go's stack is no place for more
	maxIndex = 1_000_000 // of an array that a program writes to
	maxWork  = 50_000_000
	maxBig   = 16_384 // bits of an integer
)

// gauge measures a tree until it is too large.
type gauge struct {
	nodes, bytes       int
	mostNodes, mostLen int
	written            bool // the tree is to be written: names must be UTF-8, else two could become the same
	deep, misnamed     bool
}

func newGauge() *gauge { return &gauge{mostNodes: maxNodes, mostLen: 128 * maxText} }

// walk is false as soon as something is above its bound.
func (g *gauge) walk(v any, depth int) bool {
	g.nodes++
	g.bytes += 5
	if depth > maxDepth {
		g.deep = true
		return false
	}
	switch v := v.(type) {
	case string:
		g.bytes += len(v)
	case json.Number:
		g.bytes += len(v)
	case *big.Int:
		g.bytes += v.BitLen() / 3
	case []any:
		for _, e := range v {
			if !g.walk(e, depth+1) {
				return false
			}
		}
	case map[string]any:
		for k, e := range v {
			g.bytes += len(k) + 4
			if g.written && !utf8.ValidString(k) {
				g.misnamed = true
				return false
			}
			if !g.walk(e, depth+1) {
				return false
			}
		}
	}
	return g.nodes <= g.mostNodes && g.bytes <= g.mostLen
}

// scalar reports whether a value has no parts and is short.
func scalar(v any) bool {
	switch v.(type) {
	case nil, bool, int, float64, json.Number, string:
		return true
	default:
		return false
	}
}

// tree refuses what is too large to be walked.
func tree(v any) *agent.Error {
	if scalar(v) {
		return nil
	}
	return newGauge().refuse(v)
}

func (g *gauge) refuse(v any) *agent.Error {
	if g.walk(v, 0) {
		return nil
	}
	switch {
	case g.misnamed:
		return invalid("makes an object with a name that is not UTF-8")
	case g.deep:
		return tooMuch("a value is nested deeper than %d", maxDepth)
	case g.nodes > g.mostNodes:
		return tooMuch("a value has more than %d parts", g.mostNodes)
	default:
		return tooMuch("a value is longer than %d bytes as text", g.mostLen)
	}
}

func tooMuch(format string, args ...any) *agent.Error {
	return agent.FieldErrorf(agent.CodeOverflow, field, format, args...)
}

// text refuses what would be longer than most bytes as JSON.
func text(v any, most int) *agent.Error {
	if s, ok := v.(string); ok {
		return short(s, most)
	}
	if scalar(v) {
		return nil
	}
	g := newGauge()
	g.mostLen = most
	return g.refuse(v)
}

func short(s string, most int) *agent.Error {
	if len(s) > most {
		return tooMuch("a string is longer than %d bytes", most)
	}
	return nil
}

// work refuses two values of which each part may be compared with each other part.
func work(l, r any) *agent.Error {
	if scalar(l) && scalar(r) && size(l)*size(r) <= maxWork {
		return nil
	}
	for _, v := range []any{l, r} {
		if err := tree(v); err != nil {
			return err
		}
	}
	if size(l)*size(r) > maxWork {
		return tooMuch("two values of these sizes are too much to compare part by part")
	}
	return nil
}

// size is how many parts a value has that [tree] has let pass; of a string, its bytes.
func size(v any) int {
	if s, ok := v.(string); ok {
		return len(s) + 1
	}
	if scalar(v) {
		return 1
	}
	g := newGauge()
	g.walk(v, 0)
	return g.nodes + g.bytes
}

// compare is gojq's order of values that [tree] has let pass.
func compare(l, r any) int { return gojq.Compare(l, r) }
