package pii

// Held is how many bytes a stream holds back, without the context behind them.
func Held(s *Stream) int {
	n := 0
	for _, g := range s.stages {
		n += len(g.text) - g.from
	}
	return n
}

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

// Found is the number of values so far.
func (s *Stream) Found() int {
	n := 0
	for _, g := range s.stages {
		n += g.found
	}
	return n
}
