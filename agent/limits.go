package agent

// Limits bound a turn; 0 means no bound of this kind. Those of a request can only lower those of the plan (DESIGN §8).
type Limits struct {
	Iterations  int     `json:"iterations,omitempty"`  // rounds of the loop: a model call with its repetitions, and the tools it asked for
	ModelCalls  int     `json:"model_calls,omitempty"` // requests to the provider, repetitions included
	ToolCalls   int     `json:"tool_calls,omitempty"`
	Tokens      int64   `json:"tokens,omitempty"`        // input plus output, over all model calls
	CostUSD     float64 `json:"cost_usd,omitempty"`      // over all model calls
	WallTimeSec int64   `json:"wall_time_sec,omitempty"` // from the turn's start, human pauses not counted
}

// Validate refuses negative bounds; the error's Field starts with path.
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
	case l.WallTimeSec < 0:
		return Invalid(path+".wall_time_sec", "is negative")
	}
	return nil
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
	return l
}

func stricter[N int | int64 | float64](a, b N) N {
	if a <= 0 || (b > 0 && b < a) {
		return max(b, 0) // a negative bound is none that could lower another
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
}

// Add returns the sum.
func (u Usage) Add(o Usage) Usage {
	u.InputTokens += o.InputTokens
	u.OutputTokens += o.OutputTokens
	u.CachedTokens += o.CachedTokens
	u.ReasoningTokens += o.ReasoningTokens
	u.CostUSD += o.CostUSD
	return u
}
