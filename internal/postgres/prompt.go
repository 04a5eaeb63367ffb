package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// readPrompt bounds the number of messages by their positions, which are contiguous.
const readPrompt = `
SELECT position, role, blocks, size, turn_id = $3 FROM (
	SELECT *, sum(size) OVER (ORDER BY position DESC ROWS UNBOUNDED PRECEDING) AS total
	FROM messages
	WHERE tenant = $1 AND session_id = $2 AND position <= $4 AND position > $4::bigint - $6 AND (NOT $5 OR turn_id = $3)
) m WHERE total <= $7 OR turn_id = $3 ORDER BY position`

// readStepsUpTo reads the steps before a step ($3), and the reply of that step.
const readStepsUpTo = stepOutline + `
WHERE s.turn_id = $1` + ofTenant + ` AND s.step <= $3 AND (s.step < $3 OR s.call_id = '') ORDER BY s.step, s.call_id`

// promptMessage is a message of the transcript for a prompt.
type promptMessage struct {
	agent.Message
	position int64
	size     int  // the size of its blocks as JSON
	isInput  bool // whether it is part of the turn's own input
}

// Prompt returns the messages of a model call: the session's transcript up to the cursor, or with [agent.HistoryFresh] only the turn's own
// input, and then the turn's steps before q.Step. Each reply is followed by the results of its calls, and then by the feedback. stored is the
// reply of q.Step, if there is one. Prompt takes at most one round trip: a process reads the transcript of a turn only once, because it does
// not change while the turn runs, and it reads steps only if another process may have stored some.
//
// If the messages exceed [Config.PromptMessages] or [Config.PromptBytes], the oldest are left out, and the transcript then begins with a user
// message. The turn's own input, with q.Aside, and the newest of its steps are never left out.
func (s *StepStore) Prompt(ctx context.Context, q agent.PromptQuery) (messages []agent.Message, stored *agent.ModelStep, err error) {
	const op = "load prompt"
	var b pgx.Batch
	isFresh := q.History == agent.HistoryFresh
	steps, hasSteps := s.cache.stepsBefore(q.TurnID, q.Tenant, q.Step)
	past, hasPast := s.cache.transcript(&q)
	if !hasPast {
		queueRows(&b, &past, scanPromptMessage, readPrompt, q.Tenant, q.SessionID, q.TurnID, q.Cursor, isFresh, s.cfg.PromptMessages, s.cfg.PromptBytes)
	}
	if !hasSteps {
		if err := s.StoreLater(ctx, q.TurnID); err != nil {
			return nil, nil, err
		}
		queueRows(&b, &steps, scanStep, readStepsUpTo, q.TurnID, q.Tenant, q.Step)
	}
	if b.Len() > 0 {
		if err := s.send(ctx, &b); err != nil {
			return nil, nil, mapError(op, err)
		}
	}
	if !hasPast {
		s.cache.addTranscript(&q, past)
	}
	models, tools, err := splitSteps(steps)
	if err != nil {
		return nil, nil, mapError(op, err)
	}
	if n := len(models); n > 0 && models[n-1].Key.Step == q.Step {
		stored, models = &models[n-1], models[:n-1]
	}
	addAside(past, q.Aside)
	isCut := !isFresh && len(past) > 0 && past[0].position > 1
	return fitPrompt(past, isCut, exchanges(models, tools, steps), budget{messages: s.cfg.PromptMessages, bytes: s.cfg.PromptBytes}), stored, nil
}

func scanPromptMessage(row pgx.CollectableRow) (m promptMessage, err error) {
	err = row.Scan(&m.position, &m.Role, &m.Blocks, &m.size, &m.isInput)
	return m, err
}

// addAside appends a text to the last user message of the turn's own input. It counts as part of that message.
func addAside(past []promptMessage, text string) {
	if text == "" {
		return
	}
	for i := len(past) - 1; i >= 0 && past[i].isInput; i-- {
		if m := &past[i]; m.Role == agent.RoleUser {
			m.Blocks = append(m.Blocks, agent.Text(text))
			m.size += len(text)
			return
		}
	}
}

// exchange is a model's reply with the results of its calls and the feedback. A prompt has all of these messages or none.
type exchange struct {
	messages []agent.Message
	size     int
}

func exchanges(models []agent.ModelStep, tools []agent.ToolStep, steps []step) []exchange {
	sizes := make(map[int]int, len(models))
	for i := range steps {
		sizes[steps[i].key.Step] += len(steps[i].content) + len(steps[i].feedback)
	}
	results := toolsByKey(tools)
	all := make([]exchange, len(models))
	for i := range models {
		all[i] = exchange{messages: messagesOfStep(&models[i], results), size: sizes[models[i].Key.Step]}
	}
	return all
}

// budget is how many messages and bytes a prompt has room for.
type budget struct{ messages, bytes int }

// take subtracts from the budget, and reports whether there was enough room.
func (b *budget) take(messages, bytes int) bool {
	b.messages -= messages
	b.bytes -= bytes
	return b.messages >= 0 && b.bytes >= 0
}

// fitPrompt returns the newest messages that fit into the room, in their order. past ends with the turn's own input; isCut says that past does
// not begin with the beginning of the transcript.
func fitPrompt(past []promptMessage, isCut bool, steps []exchange, room budget) []agent.Message {
	input := len(past) // where the turn's own input begins
	for input > 0 && past[input-1].isInput {
		input--
		room.take(1, past[input].size)
	}
	firstStep := len(steps)
	for firstStep > 0 && (room.take(len(steps[firstStep-1].messages), steps[firstStep-1].size) || firstStep == len(steps)) {
		firstStep--
	}
	start := input
	for start > 0 && room.take(1, past[start-1].size) {
		start--
	}
	if isCut || start > 0 {
		for start < input && past[start].Role != agent.RoleUser {
			start++
		}
	}
	messages := make([]agent.Message, 0, len(past)-start+2*(len(steps)-firstStep))
	for _, m := range past[start:] {
		messages = append(messages, m.Message)
	}
	for _, e := range steps[firstStep:] {
		messages = append(messages, e.messages...)
	}
	return messages
}
