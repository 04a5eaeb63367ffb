// Package doctor checks a live model by asking it about a dozen short questions. The summary says what they cost.
//
// The questions carry random words that no model can guess, so that an answer that was made up is told from one that was found.
package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of an examination.
const (
	DefaultTimeout = time.Minute     // of one check
	total          = 5 * time.Minute // of all checks
	maxTokens      = 2048            // of one reply: room for models that think first
	maxDetail      = 400             // bytes
)

// The layers around a model in their order, the innermost first (docs/design/wiring.md).
const (
	LayerRequests      = "observability_of_requests" // each request to the provider
	LayerMiddleware    = "middleware"
	LayerObservability = "observability" // of the step, middleware included
	LayerTools         = "tool_invocation"
)

// Config is what is examined.
type Config struct {
	Model   agent.Model
	Profile agent.PlanModel // the model's name, temperature and bound of tokens
	// Layers finds out which layers stand around a model, innermost first; nil: not examined.
	Layers  func(ctx context.Context) ([]string, error)
	Images  bool          // the model is said to see images
	Timeout time.Duration // of one check; 0: [DefaultTimeout]
}

// Check is one line of the checklist.
type Check struct {
	Name    string // what was tried, in a few words
	Rule    string // the rule it stands for, e.g. native-execution
	OK      bool   // also of a check that was not tried
	Skipped bool   // it was not tried: Detail says why
	Detail  string // for a person; no secrets
	Took    time.Duration
}

// Summary is what an examination came to.
type Summary struct {
	Passed, Failed, Skipped int
	Usage                   agent.Usage // of all questions; the cost is the caller's to work out
	Took                    time.Duration
}

// Run examines a model and reports each check when it is done, from this goroutine. A failed check is no error, and the next one follows;
// only when there is no connection at all, the rest is not tried. An error is that of a context that ended, with the summary so far.
func Run(ctx context.Context, cfg Config, report func(Check)) (Summary, error) {
	if cfg.Model == nil {
		return Summary{}, agent.Invalid("model", "is missing")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	e := newExam(cfg)
	var s Summary
	for _, c := range e.checks() {
		done := e.try(bounded, c)
		if err := agent.Interrupted(ctx, "examine model"); err != nil { // the check was cut short: it says nothing
			s.Usage, s.Took = e.usage, time.Since(began)
			return s, err
		}
		switch {
		case done.Skipped:
			s.Skipped++
		case done.OK:
			s.Passed++
		default:
			s.Failed++
		}
		report(done)
	}
	s.Usage, s.Took = e.usage, time.Since(began)
	return s, nil
}

// check is a line of the checklist before it is tried. Its run returns what was seen, and an error when that is not as it should be.
type check struct {
	name, rule string
	needs      bool // a connection
	run        func(ctx context.Context) (string, error)
}

// skipped says why a check is not tried.
type skipped string

func (s skipped) Error() string { return string(s) }

func (e *exam) try(ctx context.Context, c check) Check {
	done := Check{Name: c.name, Rule: c.rule}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	if c.needs && e.unreachable {
		c.run = func(context.Context) (string, error) { return "", skipped("there is no connection") }
	}
	detail, err := c.run(ctx)
	done.Took = time.Since(began)
	done.OK = err == nil
	if why, ok := errors.AsType[skipped](err); ok {
		done.OK, done.Skipped = true, true
		detail = "not tried: " + string(why)
	} else if err != nil {
		detail = err.Error()
	}
	done.Detail = clip.Bytes(detail, maxDetail)
	return done
}
