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

// maxAbortTime is how long a cancelled request may take to end.
const maxAbortTime = time.Second

// exam is one examination.
type exam struct {
	cfg         Config
	caps        agent.Capabilities
	code        string // random, known only to the tool
	usage       agent.Usage
	unreachable bool
	firstAnswer answer
	toolAnswer  *answer // to toolQuestion; nil: not asked yet
	toolErr     error
}

func newExam(cfg Config) *exam {
	e := &exam{cfg: cfg, code: randomWord()}
	if capable, ok := cfg.Model.(agent.Capable); ok {
		e.caps = capable.Capabilities()
	}
	return e
}

// randomWord returns a word that a model can copy but not guess.
func randomWord() string { return "K" + strings.ToUpper(rand.Text()[:7]) }

// answer is a reply and the text that was streamed.
type answer struct {
	reply     agent.ModelReply
	streamed  string // all fragments of text joined
	fragments int
}

// text returns the text of the reply.
func (a *answer) text() string { return agent.Normalize(a.reply.Blocks) }

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

// outcome is the result of a call.
type outcome struct {
	answer answer
	err    error
}

// ask sends a request and returns the answer. It fails if the model does not return within maxAbortTime after the end of the context.
func (e *exam) ask(ctx context.Context, req agent.ModelRequest) (answer, error) {
	out, ended := e.startCall(ctx, req, func() {})
	select {
	case o := <-out:
		e.usage = e.usage.Add(o.answer.reply.Usage)
		return o.answer, o.err
	case <-afterEnd(ctx, ended):
		return answer{}, fmt.Errorf("did not end within %s of its context", maxAbortTime)
	}
}

// startCall calls the model in a new goroutine, which also calls onText for every fragment of text. ended is true once the call has returned.
func (e *exam) startCall(ctx context.Context, req agent.ModelRequest, onText func()) (out chan outcome, ended *atomic.Bool) {
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
				o.answer.fragments++
				onText()
			}
			return nil
		})
		o.answer.streamed = text.String()
	}()
	return out, ended
}

// afterEnd returns a channel that is closed if the call has not ended within maxAbortTime after the end of a context.
func afterEnd(ctx context.Context, ended *atomic.Bool) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() {
		time.AfterFunc(maxAbortTime, func() {
			if !ended.Load() {
				close(late)
			}
		})
	})
	return late
}
