package agent

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds of [Limits].Tools.
const (
	maxToolLimits   = 256
	maxToolLimitLen = 128 // bytes
)

// Limits bound a turn. 0 means no bound. The limits of a request can only lower those of the plan.
type Limits struct {
	Iterations  int     `json:"iterations,omitempty"`  // rounds of the loop: a model call with its retries, and its tool calls
	ModelCalls  int     `json:"model_calls,omitempty"` // requests to the provider, including retries
	ToolCalls   int     `json:"tool_calls,omitempty"`
	Tokens      int64   `json:"tokens,omitempty"`        // input plus output, over all model calls
	CostUSD     float64 `json:"cost_usd,omitempty"`      // over all model calls
	WallTimeSec int64   `json:"wall_time_sec,omitempty"` // from the turn's start, without the time that it waits for people

	// Tools are the granted tools that the turn may call: names, or prefixes followed by "*". nil: all; empty: none. They are stored in the record of
	// the turn, not in its workflow history.
	Tools []string `json:"tools,omitzero"`
}

// Validate checks the limits. The Field of its error begins with path.
func (l *Limits) Validate(path string) error {
	switch {
	case l.Iterations < 0:
		return Invalid(path+".iterations", "is negative")
	case l.ModelCalls < 0:
		return Invalid(path+".model_calls", "is negative")
	case l.ToolCalls < 0:
		return Invalid(path+".tool_calls", "is negative")
	case l.Tokens < 0:
		return Invalid(path+".tokens", "is negative")
	case l.CostUSD < 0:
		return Invalid(path+".cost_usd", "is negative")
	case math.IsNaN(l.CostUSD), math.IsInf(l.CostUSD, 0): // possible in gRPC requests
		return Invalid(path+".cost_usd", "want a number of USD, got %v", l.CostUSD)
	case l.WallTimeSec < 0:
		return Invalid(path+".wall_time_sec", "is negative")
	case len(l.Tools) > maxToolLimits:
		return Invalid(path+".tools", "has %d entries, at most %d", len(l.Tools), maxToolLimits)
	}
	for i, name := range l.Tools {
		if !isToolPattern(name) {
			return Invalid(fmt.Sprintf("%s.tools[%d]", path, i), "want the name of a tool, or its beginning and *, of 1 to %d bytes", maxToolLimitLen)
		}
	}
	return nil
}

// isToolPattern reports whether a name may be in [Limits].Tools. It may have one * at its end.
func isToolPattern(name string) bool {
	star := strings.IndexByte(name, '*')
	return name != "" && len(name) <= maxToolLimitLen && (star < 0 || star == len(name)-1)
}

// MayCall reports whether Tools allows a tool.
func (l *Limits) MayCall(tool string) bool {
	return l.Tools == nil || slices.ContainsFunc(l.Tools, func(pattern string) bool { return matches(pattern, tool) })
}

// Lower returns the stricter bounds of l and o.
func (l Limits) Lower(o *Limits) Limits {
	if o == nil {
		return l
	}
	l.Iterations = stricter(l.Iterations, o.Iterations)
	l.ModelCalls = stricter(l.ModelCalls, o.ModelCalls)
	l.ToolCalls = stricter(l.ToolCalls, o.ToolCalls)
	l.Tokens = stricter(l.Tokens, o.Tokens)
	l.CostUSD = stricter(l.CostUSD, o.CostUSD)
	l.WallTimeSec = stricter(l.WallTimeSec, o.WallTimeSec)
	l.Tools = commonTools(l.Tools, o.Tools)
	return l
}

// commonTools returns the tools that both lists allow. It drops patterns beyond the maximum length of a list.
func commonTools(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := []string{}
	add := func(pattern string) {
		if len(out) < maxToolLimits && !slices.ContainsFunc(out, func(p string) bool { return matches(p, pattern) }) {
			out = append(out, pattern)
		}
	}
	for _, x := range a {
		for _, y := range b {
			switch { // of two patterns one includes the other, or they have nothing in common
			case matches(x, y):
				add(y)
			case matches(y, x):
				add(x)
			}
		}
	}
	return out
}

// ToolLimits returns the tools that turns of the principal may call, in the form of [Limits].Tools. It returns nil if a scope allows all tools, an
// empty list if no scope allows [ActionToolsUse].
func (p *Principal) ToolLimits() []string {
	if p.Trusted() {
		return nil
	}
	out := []string{}
	for _, scope := range p.Scopes {
		action, pattern, hasPattern := strings.Cut(scope, ":")
		switch {
		case !matches(action, string(ActionToolsUse)):
		case !hasPattern, pattern == "*":
			return nil
		case isToolPattern(pattern) && len(out) < maxToolLimits: // other patterns match no tool
			out = append(out, pattern)
		}
	}
	return out
}

// stricter returns the lower of two bounds. 0 and negative numbers mean no bound.
func stricter[N int | int64 | float64](a, b N) N {
	if a <= 0 || (b > 0 && b < a) {
		return max(b, 0)
	}
	return a
}

// Usage is the consumption of a model call or a turn.
type Usage struct {
	InputTokens     int64   `json:"input_tokens"` // including CachedTokens
	OutputTokens    int64   `json:"output_tokens"`
	CachedTokens    int64   `json:"cached_tokens"`
	ReasoningTokens int64   `json:"reasoning_tokens"`
	CostUSD         float64 `json:"cost_usd"`
	Estimated       bool    `json:"estimated,omitzero"` // part of it is estimated, because a request was interrupted before the provider reported its usage
	Unpriced        bool    `json:"unpriced,omitzero"`  // CostUSD lacks the cost of a model without a price
}

// Add returns the sum of u and o.
func (u Usage) Add(o Usage) Usage {
	u.InputTokens += o.InputTokens
	u.OutputTokens += o.OutputTokens
	u.CachedTokens += o.CachedTokens
	u.ReasoningTokens += o.ReasoningTokens
	u.CostUSD += o.CostUSD
	u.Estimated = u.Estimated || o.Estimated
	u.Unpriced = u.Unpriced || o.Unpriced
	return u
}
