// Package doctor checks a live model with about a dozen short questions. The summary has their cost in tokens.
//
// Tools answer with random words, which a model cannot guess, so that a check detects a made-up answer.
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
	DefaultTimeout = time.Minute     // for one check
	totalTimeout   = 5 * time.Minute // for all checks
	maxTokens      = 2048            // of one reply, enough for models that think first
	maxDetail      = 400             // bytes
)

// The layers around a model, the innermost first (docs/design/wiring.md).
const (
	LayerRequests      = "observability_of_requests" // each request to the provider
	LayerMiddleware    = "middleware"
	LayerObservability = "observability" // of the step, with its middleware
	LayerTools         = "tool_invocation"
)

// Config is the configuration of [Run].
type Config struct {
	Model   agent.Model
	Profile agent.PlanModel // the model's name, temperature and bound of tokens
	// Layers returns the layers around a model, innermost first. If it is nil, they are not checked.
	Layers  func(ctx context.Context) ([]string, error)
	Images  bool          // check that the model sees images
	Timeout time.Duration // for one check; 0: [DefaultTimeout]
}

// Check is one line of the checklist.
type Check struct {
	Name    string // a few words
	Rule    string // the rule that is checked, such as native-execution
	OK      bool   // also for a skipped check
	Skipped bool   // Detail says why
	Detail  string // for a person, without secrets
	Took    time.Duration
}

// Summary is the result of an examination.
type Summary struct {
	Passed, Failed, Skipped int
	Usage                   agent.Usage // of all questions, without their price
	Took                    time.Duration
}

// Run examines a model and calls report after each check, in this goroutine. It continues after a failed check, but skips the others if there is no
// connection. It returns an error only if the context ends, with the summary until then.
func Run(ctx context.Context, cfg Config, report func(Check)) (Summary, error) {
	if cfg.Model == nil {
		return Summary{}, agent.Invalid("model", "is missing")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	started := time.Now()
	bounded, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	e := newExam(cfg)
	var s Summary
	for _, c := range e.checks() {
		done := e.runCheck(bounded, c)
		if err := agent.Interrupted(ctx, "examine model"); err != nil { // the check was interrupted
			s.Usage, s.Took = e.usage, time.Since(started)
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
	s.Usage, s.Took = e.usage, time.Since(started)
	return s, nil
}

// check is a line of the checklist. Its run returns a detail, and an error if the check failed.
type check struct {
	name, rule      string
	needsConnection bool
	skip            string // reason to skip the check; empty: run it
	run             func(ctx context.Context) (string, error)
}

// skipReason is the error of a check that is skipped.
type skipReason string

func (s skipReason) Error() string { return string(s) }

// runCheck runs a check.
func (e *exam) runCheck(ctx context.Context, c check) Check {
	result := Check{Name: c.name, Rule: c.rule}
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	var detail string
	var err error
	switch {
	case c.needsConnection && e.unreachable:
		err = skipReason("there is no connection")
	case c.skip != "":
		err = skipReason(c.skip)
	default:
		detail, err = c.run(ctx)
	}
	result.Took = time.Since(started)
	result.OK = err == nil
	if reason, ok := errors.AsType[skipReason](err); ok {
		result.OK, result.Skipped = true, true
		detail = "not tried: " + string(reason)
	} else if err != nil {
		detail = err.Error()
	}
	result.Detail = clip.Bytes(detail, maxDetail)
	return result
}
