package gatewaytest

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Emit appends events to a turn, and sets their index, stream and time.
func (rt *Runtime) Emit(id agent.TurnID, events ...agent.Event) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	t := rt.turns[id]
	for _, e := range events {
		e.Meta.StreamID, e.Meta.TurnID = string(id), id
		e.Meta.EventIndex = int64(len(t.events) + 1)
		e.Meta.Time = Epoch()
		t.pauses.See(&e)
		switch {
		case e.Type == agent.EventApprovalRequested:
			rt.addApproval(id, t, *e.Approval)
		case e.Type == agent.EventApprovalResolved:
			rt.resolveApproval(id, e.Approval)
		case e.Status == agent.StatusWaiting:
			t.state = agent.StateWaiting
		case e.Status == agent.StatusRunning:
			t.state = agent.StateRunning
		case e.Terminal():
			t.output = e.Result
			t.state = string(e.Result.Status)
		}
		t.events = append(t.events, e)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// Say emits RUNNING, a token event for each word, and COMPLETED.
func (rt *Runtime) Say(id agent.TurnID, text string) {
	rt.Emit(id, Status(agent.StatusRunning))
	for _, word := range strings.SplitAfter(text, " ") {
		rt.Emit(id, Token(word))
	}
	rt.Finish(id, agent.TurnCompleted, text)
}

// Finish emits the terminal event with a result and stores the result.
func (rt *Runtime) Finish(id agent.TurnID, status agent.TurnStatus, text string) {
	out := rt.Output(id, status, text)
	document, err := json.Marshal(map[string]any{"output": text})
	if err != nil {
		document = nil
	}
	rt.Store(out.ResultRef, document)
	rt.Store(string(id), document)
	rt.Emit(id, agent.Event{
		Type: agent.EventStatus, Status: agent.TerminalStatus(status), Reason: string(out.StopReason), Result: out,
	})
}

// Output returns the output that Finish gives a turn.
func (rt *Runtime) Output(id agent.TurnID, status agent.TurnStatus, text string) *agent.AgentStepOutput {
	rt.mu.Lock()
	session := rt.turns[id].request.SessionID
	rt.mu.Unlock()
	out := &agent.AgentStepOutput{
		TurnID: id, SessionID: session, Agent: "analyst", AgentInstanceID: "analyst@1", Status: status, Output: text,
		Blocks: []agent.Block{agent.Text(text)}, ResultRef: resultPrefix + string(id),
		Usage:      agent.Usage{InputTokens: 10, OutputTokens: 5},
		StopReason: agent.StopEndTurn, StreamID: string(id), ExecutionTimeMS: 1200, Model: "offline",
	}
	switch status {
	case agent.TurnFailed:
		out.StopReason = agent.StopModelError
		out.Error = &agent.Failure{Type: string(agent.StopModelError), Message: "the provider said no", Retryable: true}
	case agent.TurnCancelled:
		out.StopReason = agent.StopCancelled
	case agent.TurnCompleted:
	}
	return out
}

// Status returns a status event.
func Status(s agent.EventStatusValue) agent.Event {
	return agent.Event{Type: agent.EventStatus, Status: s}
}

// Token returns a token event of the producer model/1.
func Token(text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: "model/1", Attempt: 1}, Type: agent.EventToken, Text: text}
}

// Follow implements [agent.Inbox].
func (rt *Runtime) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		rt.addFollowers(1)
		defer rt.addFollowers(-1)
		for {
			rt.mu.Lock()
			t := rt.turns[id]
			var ready []agent.Event
			if after < int64(len(t.events)) {
				ready = t.events[after:]
			}
			changed, firstIndex := t.changed, rt.firstIndex
			rt.mu.Unlock()
			if len(ready) > 0 && after+1 < firstIndex {
				yield(agent.Event{}, agent.ErrGap)
				return
			}
			for i := range ready {
				if !yield(ready[i], nil) || ready[i].Terminal() {
					return
				}
				after = ready[i].Meta.EventIndex
			}
			if len(ready) > 0 {
				continue
			}
			agent.Waiting(ctx)
			select {
			case <-changed:
			case <-ctx.Done():
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (rt *Runtime) addFollowers(n int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.followers += n
}

// Expire removes the events of all turns before an index.
func (rt *Runtime) Expire(before int64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.firstIndex = before
}
