package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// failureTime is how long a failed call of a model counts if no call follows.
	failureTime = 15 * time.Minute
	// maxProfiles bounds the profiles in memory. The one with the oldest call is forgotten first.
	maxProfiles = 500
)

// Outcomes has the outcome of the last call of each model profile, from the calls of real turns. So a probe costs no call. It is safe for
// concurrent use; its zero value is ready.
type Outcomes struct {
	mu   sync.Mutex
	last map[string]outcome
}

type outcome struct {
	code  agent.Code // empty: it answered
	at    time.Time
	inRow int // failures in a row
}

// Note records the outcome of a call. It ignores cancelled calls and prompts that were too long.
func (o *Outcomes) Note(profile string, err error) {
	code := agent.Code("")
	if err != nil {
		code = agent.CodeOf(err)
	}
	if code == agent.CodeCancelled || code == agent.CodeOverflow {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[string]outcome{}
	}
	now := outcome{code: code, at: time.Now()}
	if code != "" {
		now.inRow = o.last[profile].inRow + 1
	}
	o.last[profile] = now
	if len(o.last) > maxProfiles {
		o.forgetOldest()
	}
}

func (o *Outcomes) forgetOldest() {
	oldest := ""
	for name := range o.last {
		if oldest == "" || o.last[name].at.Before(o.last[oldest].at) {
			oldest = name
		}
	}
	delete(o.last, oldest)
}

// Watch returns m with calls that are recorded. It keeps the model's capabilities.
func (o *Outcomes) Watch(profile string, m agent.Model) agent.Model {
	w := watchedModel{Model: m, profile: profile, outcomes: o}
	if c, ok := m.(agent.Capable); ok {
		return watchedCapableModel{w, c}
	}
	return w
}

type watchedModel struct {
	agent.Model

	profile  string
	outcomes *Outcomes
}

// Generate implements [agent.Model].
func (w watchedModel) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	var refused error // by the receiver of the fragments: not the model's failure
	reply, err := w.Model.Generate(ctx, req, func(d agent.Delta) error {
		refused = emit(d)
		return refused
	})
	if ctx.Err() == nil && refused == nil {
		w.outcomes.Note(w.profile, err)
	}
	return reply, err
}

type watchedCapableModel struct {
	watchedModel

	of agent.Capable
}

// Capabilities implements [agent.Capable].
func (c watchedCapableModel) Capabilities() agent.Capabilities { return c.of.Capabilities() }

// Probe reports profiles whose last call failed within 15 minutes, and profiles without a key. missing returns the latter, each with its variable
// or file, and is called once a minute; nil: keys are not checked. Turns of other models run in any case.
func (o *Outcomes) Probe(missing func(ctx context.Context) ([]string, error)) Probe {
	var lacking []string
	var asked time.Time
	return Probe{Name: Models, Late: Degraded, Ask: func(ctx context.Context) (Finding, error) {
		if missing != nil && time.Since(asked) > time.Minute {
			found, err := missing(ctx)
			if err != nil {
				return Finding{}, err
			}
			lacking, asked = found, time.Now()
		}
		return o.finding(lacking), nil
	}}
}

func (o *Outcomes) finding(lacking []string) Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	type failed struct {
		text string
		code agent.Code
		at   time.Time
	}
	var failures []failed
	called := 0
	for name, l := range o.last {
		ago := time.Since(l.at)
		if ago > failureTime {
			continue
		}
		called++
		if l.code != "" {
			failures = append(failures, failed{fmt.Sprintf("%s: %s, %d in a row, %s ago", name, l.code, l.inRow, ago.Round(time.Second)), l.code, l.at})
		}
	}
	if len(failures) == 0 && len(lacking) == 0 {
		return Finding{State: OK, Detail: fmt.Sprintf("%d profiles called in the last %s, all answered", called, failureTime)}
	}
	slices.SortFunc(failures, func(a, b failed) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.text, b.text)) })
	texts := slices.Clone(lacking)
	for i := range failures {
		texts = append(texts, failures[i].text)
	}
	f := Finding{State: Degraded, Detail: firstFew(texts), Hint: hintModelKey}
	if len(lacking) == 0 {
		f.Hint = modelHint(failures[0].code)
	}
	return f
}

func modelHint(c agent.Code) string {
	switch c {
	case agent.CodeUnauthenticated, agent.CodeDenied:
		return hintModelDenied
	case agent.CodeNotFound:
		return hintModelKey
	case agent.CodeRateLimited:
		return hintModelQuota
	case agent.CodeUnavailable:
		return hintModelDown
	default:
		return hintModelOther
	}
}
