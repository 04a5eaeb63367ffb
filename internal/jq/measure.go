package jq

import (
	"encoding/json"
	"math/big"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of what one instruction works on. Values of gojq share their parts, so a value that is small in memory can take forever to
// walk: these count what is walked.
const (
	maxNodes = 5_000_000 // values in a tree
	maxText  = 2 << 20   // bytes of a string
	maxDepth = 1_000     // of nesting, because gojq recurses on Go's stack
	maxIndex = 1_000_000 // of an array that a program writes to
	maxWork  = 50_000_000
	maxBig   = 16_384 // bits of an integer
)

// gauge measures a tree until it is too large.
type gauge struct {
	nodes, bytes       int
	maxNodes, maxBytes int
	checkNames         bool // names must be UTF-8, because two others could be written as the same name
	tooDeep, badName   bool
}

func newGauge() *gauge { return &gauge{maxNodes: maxNodes, maxBytes: 128 * maxText} }

// walk returns false as soon as something is above its bound.
func (g *gauge) walk(v any, depth int) bool {
	g.nodes++
	g.bytes += 5
	if depth > maxDepth {
		g.tooDeep = true
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
			if g.checkNames && !utf8.ValidString(k) {
				g.badName = true
				return false
			}
			if !g.walk(e, depth+1) {
				return false
			}
		}
	}
	return g.nodes <= g.maxNodes && g.bytes <= g.maxBytes
}

// check returns an error for a tree above the bounds.
func (g *gauge) check(v any) *agent.Error {
	switch {
	case g.walk(v, 0):
		return nil
	case g.badName:
		return invalid("makes an object with a name that is not UTF-8")
	case g.tooDeep:
		return tooMuch("a value is nested deeper than %d", maxDepth)
	case g.nodes > g.maxNodes:
		return tooMuch("a value has more than %d parts", g.maxNodes)
	default:
		return tooMuch("a value is longer than %d bytes as text", g.maxBytes)
	}
}

// isScalar reports whether a value has no parts.
func isScalar(v any) bool {
	switch v.(type) {
	case nil, bool, int, float64, json.Number, string:
		return true
	default:
		return false
	}
}

// checkTree refuses a value that takes too long to walk.
func checkTree(v any) *agent.Error {
	if isScalar(v) {
		return nil
	}
	return newGauge().check(v)
}

func checkTrees(values ...any) *agent.Error {
	for _, v := range values {
		if err := checkTree(v); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses a value that is longer than maxBytes as JSON.
func checkText(v any, maxBytes int) *agent.Error {
	if isScalar(v) {
		return checkString(v, maxBytes)
	}
	g := newGauge()
	g.maxBytes = maxBytes
	return g.check(v)
}

func tooMuch(format string, args ...any) *agent.Error {
	return agent.FieldErrorf(agent.CodeOverflow, field, format, args...)
}
