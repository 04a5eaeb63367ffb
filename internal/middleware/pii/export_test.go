package pii

// Held is how many bytes a stream holds back, without the context behind them.
func (s *Stream) Held() int { return len(s.text) - s.from }

// Found is the number of values so far.
func (s *Stream) Found() int { return s.found }

// Type is the name of what the rule looks for.
func (r *Rule) Type() string { return r.kind }

// NewPattern is for tests against regexp.
func NewPattern(expression string) (*Rule, int, error) {
	p, err := newPattern(expression, 0)
	if err != nil {
		return nil, 0, err
	}
	return &Rule{kind: "x", strategy: StrategyRedact, finder: p}, p.limit, nil
}

// OutputRule is the rule for what the model says, and so for the stream of it; nil when the output is left alone.
func (m *Middleware) OutputRule() *Rule {
	if !m.output {
		return nil
	}
	return m.rule
}
