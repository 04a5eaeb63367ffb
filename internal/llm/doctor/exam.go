package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// patience is how long a cancelled request may take to end.
const patience = time.Second

// exam is an examination at work.
type exam struct {
	cfg         Config
	caps        agent.Capabilities
	code        string // a word that only the tool knows
	usage       agent.Usage
	unreachable bool
	first       answer  // to the first question
	called      *answer // to the question that needs the tool, once it was asked
	calledErr   error
}

func newExam(cfg Config) *exam {
	e := &exam{cfg: cfg, code: word()}
	if capable, ok := cfg.Model.(agent.Capable); ok {
		e.caps = capable.Capabilities()
	}
	return e
}

// word is one that cannot be guessed, and that a model can copy.
func word() string { return "K" + strings.ToUpper(rand.Text()[:7]) }

// answer is a reply with what was streamed of it.
type answer struct {
	reply  agent.ModelReply
	text   string // the fragments of text, joined
	pieces int    // how many there were
}

func (a *answer) said() string { return agent.Normalize(a.reply.Blocks) }

func (e *exam) request(question string, tools ...agent.ToolSpec) agent.ModelRequest {
	req := agent.ModelRequest{
		Profile: e.cfg.Profile.Profile, Model: e.cfg.Profile.Model, Temperature: e.cfg.Profile.Temperature, MaxTokens: maxTokens,
		Messages: []agent.Message{agent.UserText(question)}, Tools: tools,
	}
	if n := e.cfg.Profile.MaxTokens; n > 0 && n < maxTokens {
		req.MaxTokens = n
	}
	return req
}

// outcome is how a call ended.
type outcome struct {
	answer answer
	err    error
}

// ask asks, and gives a model that outlives its context a second to end: one that does not is left to itself.
func (e *exam) ask(ctx context.Context, req agent.ModelRequest) (answer, error) {
	out, ended := e.start(ctx, req, func() {})
	select {
	case o := <-out:
		e.usage = e.usage.Add(o.answer.reply.Usage)
		return o.answer, o.err
	case <-afterEnd(ctx, ended):
		return answer{}, fmt.Errorf("did not end within %s of its context", patience)
	}
}

// start calls the model in a goroutine of its own. onText runs there with every fragment.
func (e *exam) start(ctx context.Context, req agent.ModelRequest, onText func()) (out chan outcome, ended *atomic.Bool) {
	out, ended = make(chan outcome, 1), new(atomic.Bool)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("panic: %v", p)
			}
			ended.Store(true)
			out <- o
		}()
		var text strings.Builder
		o.answer.reply, o.err = e.cfg.Model.Generate(ctx, req, func(d agent.Delta) error {
			if d.Text != "" {
				text.WriteString(d.Text)
				o.answer.pieces++
				onText()
			}
			return nil
		})
		o.answer.text = text.String()
	}()
	return out, ended
}

// afterEnd is closed when a context has ended and the call, given a second, has not.
func afterEnd(ctx context.Context, ended *atomic.Bool) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() {
		time.AfterFunc(patience, func() {
			if !ended.Load() {
				close(late)
			}
		})
	})
	return late
}
