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

// Limits bound a turn; 0 means no bound of this kind. Those of a request can only lower those of the plan.
type Limits struct {
	Iterations  int     `json:"iterations,omitempty"`  // rounds of the loop: a model call with its repetitions, and the tools it asked for
	ModelCalls  int     `json:"model_calls,omitempty"` // requests to the provider, repetitions included
	ToolCalls   int     `json:"tool_calls,omitempty"`
	Tokens      int64   `json:"tokens,omitempty"`        // input plus output, over all model calls
	CostUSD     float64 `json:"cost_usd,omitempty"`      // over all model calls
	WallTimeSec int64   `json:"wall_time_sec,omitempty"` // from the turn's start, human pauses not counted

	// Tools are the tools that the turn may call, of those that its plan grants: names, or the beginning of names and "*". nil: all of
	// them; empty: none. They travel with the turn's record and never through its history.
	Tools []string `json:"tools,omitzero"`
}

// Validate refuses negative bounds and tools that can be no tool's name; the error's Field starts with path.
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
	case math.IsNaN(l.CostUSD), math.IsInf(l.CostUSD, 0): // which gRPC can send
		return Invalid(path+".cost_usd", "want a number of USD, got %v", l.CostUSD)
	case l.WallTimeSec < 0:
		return Invalid(path+".wall_time_sec", "is negative")
	case len(l.Tools) > maxToolLimits:
		return Invalid(path+".tools", "has %d entries, at most %d", len(l.Tools), maxToolLimits)
	}
	for i, name := range l.Tools {
		if !validToolLimit(name) {
			return Invalid(fmt.Sprintf("%s.tools[%d]", path, i), "want the name of a tool, or its beginning and *, of 1 to %d bytes", maxToolLimitLen)
		}
	}
	return nil
}

func validToolLimit(name string) bool {
	star := strings.IndexByte(name, '*')
	return name != "" && len(name) <= maxToolLimitLen && (star < 0 || star == len(name)-1)
}

// MayCall reports whether a tool is one of those that the turn may call.
func (l *Limits) MayCall(tool string) bool {
	return l.Tools == nil || slices.ContainsFunc(l.Tools, func(pattern string) bool { return matches(pattern, tool) })
}

// Lower returns l with every bound of o that is stricter.
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

// commonTools returns the tools that both lists allow. A list that would be too long allows fewer.
func commonTools(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := []string{}
	add := func(pattern string) {
		if len(out) < maxToolLimits && !slices.ContainsFunc(out, func(has string) bool { return matches(has, pattern) }) {
			out = append(out, pattern)
		}
	}
	for _, x := range a {
		for _, y := range b {
			switch { // of two patterns one is within the other, or they have nothing in common
			case matches(x, y):
				add(y)
			case matches(y, x):
				add(x)
			}
		}
	}
	return out
}

// ToolLimits are the tools that turns of the principal may call, as [Limits].Tools: nil where its scopes confine nothing, none where no
// scope allows [ActionToolsUse].
func (p *Principal) ToolLimits() []string {
	if p.Trusted() {
		return nil
	}
	out := []string{}
	for _, scope := range p.Scopes {
		action, pattern, confined := strings.Cut(scope, ":")
		switch {
		case !matches(action, string(ActionToolsUse)):
		case !confined, pattern == "*":
			return nil
		case validToolLimit(pattern) && len(out) < maxToolLimits: // other patterns match no tool
			out = append(out, pattern)
		}
	}
	return out
}

func stricter[N int | int64 | float64](a, b N) N {
	if a <= 0 || (b > 0 && b < a) {
		return max(b, 0) // a negative bound means none
	}
	return a
}

// Usage counts what a model call, or a turn, consumed.
type Usage struct {
	InputTokens     int64   `json:"input_tokens"` // cached ones included
	OutputTokens    int64   `json:"output_tokens"`
	CachedTokens    int64   `json:"cached_tokens"`
	ReasoningTokens int64   `json:"reasoning_tokens"`
	CostUSD         float64 `json:"cost_usd"`
	Estimated       bool    `json:"estimated,omitzero"` // some of it is estimated: a request was cut off before the provider said what it used
	Unpriced        bool    `json:"unpriced,omitzero"`  // some of it is of a model without a price: CostUSD lacks it
}

// Add returns the sum.
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
