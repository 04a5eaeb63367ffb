package postgres_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// queueModel is what one session should be: the simplest program that keeps the promises of Begin and Finish.
type queueModel struct {
	holder     string // "" when the session is free
	begun      bool   // the holder has its input in the transcript
	cursor     map[string]int64
	queue      []string
	done       map[string]bool
	steps      map[string]bool
	transcript []string
}

func (m *queueModel) begin(id string, onBusy agent.OnBusy, limit int) (answer agent.BeginAnswer, position int, cursor int64) {
	at := slices.Index(m.queue, id)
	switch {
	case m.done[id]:
		return agent.BeginDuplicate, 0, 0
	case m.holder == id || m.holder == "":
		if m.holder == "" || !m.begun {
			m.transcript = append(m.transcript, "user: question "+id)
			m.holder, m.begun, m.cursor[id] = id, true, int64(len(m.transcript))
		}
		return agent.BeginReady, 0, m.cursor[id]
	case at >= 0:
		return agent.BeginBehind, at + 1, 0
	case onBusy == agent.OnBusyReject:
		return agent.BeginBusy, 0, 0
	case len(m.queue) >= limit:
		return agent.BeginOverflow, 0, 0
	}
	m.queue = append(m.queue, id)
	return agent.BeginBehind, len(m.queue), 0
}

// finish returns the turn that Finish should name.
func (m *queueModel) finish(id string) (next string) {
	at := slices.Index(m.queue, id)
	switch {
	case m.done[id]:
		if m.holder != "" && !m.begun {
			return m.holder
		}
		return ""
	case m.holder != id && at < 0: // never begun
		return ""
	}
	m.done[id] = true
	if m.steps[id] {
		m.transcript = append(m.transcript, "assistant: answer "+id)
	}
	if at >= 0 {
		m.queue = slices.Delete(m.queue, at, at+1)
		return ""
	}
	m.holder, m.begun = "", false
	if len(m.queue) > 0 {
		m.holder, m.queue = m.queue[0], m.queue[1:]
	}
	return m.holder
}

// step reports whether a step of the turn should be accepted.
func (m *queueModel) step(id string) bool {
	if m.done[id] || m.holder != id && !slices.Contains(m.queue, id) {
		return false
	}
	m.steps[id] = true
	return true
}

func TestQueueFollowsItsModel(t *testing.T) {
	b := newBench(t, postgres.Config{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		name := fmt.Sprintf("s%d", round)
		m := queueModel{cursor: map[string]int64{}, done: map[string]bool{}, steps: map[string]bool{}}
		for range rapid.IntRange(1, 25).Draw(rt, "operations") {
			id := fmt.Sprintf("%s-t%d", name, rapid.IntRange(1, 6).Draw(rt, "turn"))
			switch rapid.SampledFrom([]string{"begin", "begin", "begin", "finish", "step"}).Draw(rt, "operation") {
			case "begin":
				r := turn(id, name)
				r.OnBusy = rapid.SampledFrom([]agent.OnBusy{agent.OnBusyQueue, agent.OnBusyReject}).Draw(rt, "on_busy")
				r.QueueLimit = rapid.IntRange(1, 4).Draw(rt, "limit")
				holder := m.holder
				answer, position, cursor := m.begin(id, r.OnBusy, r.QueueLimit)
				got := b.begin(r)
				require.Equal(rt, answer, got.Answer)
				require.Equal(rt, position, got.Position)
				require.Equal(rt, cursor, got.Cursor)
				if position > 0 || answer == agent.BeginBusy {
					require.EqualValues(rt, holder, got.Holder)
				}
			case "finish":
				f := b.complete(id, name)
				f.Events = nil
				next := m.finish(id)
				require.EqualValues(rt, next, b.finish(f).Next)
			case "step":
				err := b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("answer "+id)))
				require.Equal(rt, m.step(id), err == nil, "%v", err)
			}
		}
		if len(m.transcript) > 0 {
			require.Equal(rt, m.transcript, b.transcript(name))
		}
	})
}
