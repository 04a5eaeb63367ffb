package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Positions are contiguous, so the bound on messages is one on positions.
const readPrompt = `
SELECT position, role, blocks, size, turn_id = $3 FROM (
	SELECT *, sum(size) OVER (ORDER BY position DESC ROWS UNBOUNDED PRECEDING) AS total
	FROM messages
	WHERE tenant = $1 AND session_id = $2 AND position <= $4 AND position > $4::bigint - $6 AND (NOT $5 OR turn_id = $3)
) m WHERE total <= $7 OR turn_id = $3 ORDER BY position`

// The steps before one ($3), and the model's reply of that one.
const readStepsUpTo = stepOutline + `
WHERE s.turn_id = $1` + ofTenant + ` AND s.step <= $3 AND (s.step < $3 OR s.call_id = '') ORDER BY s.step, s.call_id`

// promptMessage is a message on its way into a prompt.
type promptMessage struct {
	agent.Message
	position int64
	size     int  // bytes of its blocks as JSON
	own      bool // of the turn that asks
}

// Prompt returns what a model call sees: the session's transcript up to the cursor, or only the turn's own input with
// [agent.HistoryFresh]; then the turn's steps before q.Step, each tool message directly behind the message that asked, and feedback
// behind both. stored is the reply of q.Step if there is one already. It is one round trip, or none: a process reads the transcript of a turn,
// which does not change while the turn runs, once, and steps only where it has not stored all of them itself.
//
// Beyond [Config.PromptMessages] and [Config.PromptBytes] the oldest messages are left out, in whole exchanges: what is left of
// the transcript starts with a user message. The turn's own input is always there, q.Aside with it, and of its steps the newest ones.
func (s *Store) Prompt(ctx context.Context, q agent.PromptQuery) (messages []agent.Message, stored *agent.ModelStep, err error) {
	const op = "load prompt"
	var b pgx.Batch
	steps, stepsKnown := s.kept.stepsBefore(q.TurnID, q.Tenant, q.Step)
	past, known := s.kept.transcript(&q)
	if !known {
		b.Queue(readPrompt, q.Tenant, q.SessionID, q.TurnID, q.Cursor, q.History == agent.HistoryFresh, s.cfg.PromptMessages,
			s.cfg.PromptBytes).Query(func(rows pgx.Rows) (err error) {
			past, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m promptMessage, err error) {
				err = row.Scan(&m.position, &m.Role, &m.Blocks, &m.size, &m.own)
				return m, err
			})
			return err
		})
	}
	if !stepsKnown {
		b.Queue(readStepsUpTo, q.TurnID, q.Tenant, q.Step).Query(func(rows pgx.Rows) (err error) {
			steps, err = pgx.CollectRows(rows, scanStep)
			return err
		})
	}
	if b.Len() > 0 {
		if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
			return nil, nil, mapError(op, err)
		}
	}
	if !known {
		s.kept.keepTranscript(&q, past)
	}
	models, tools, err := splitSteps(steps)
	if err != nil {
		return nil, nil, mapError(op, err)
	}
	if n := len(models); n > 0 && models[n-1].Key.Step == q.Step {
		stored, models = &models[n-1], models[:n-1]
	}
	addAside(past, q.Aside)
	cut := q.History != agent.HistoryFresh && len(past) > 0 && past[0].position > 1
	return assemble(past, cut, exchanges(models, tools, steps), budget{messages: s.cfg.PromptMessages, bytes: s.cfg.PromptBytes}), stored, nil
}

// addAside puts a text behind the turn's own input: into its last message, or that of its user messages which comes last when it ends
// with another role's. It counts as part of that message.
func addAside(past []promptMessage, text string) {
	if text == "" {
		return
	}
	for i, found := len(past)-1, false; i >= 0 && past[i].own && !found; i-- {
		m := &past[i]
		if found = m.Role == agent.RoleUser; found {
			m.Blocks = append(m.Blocks, agent.Text(text))
			m.size += len(text)
		}
	}
}

// exchange is a model's reply with the results of its calls and the feedback: kept or left out as a whole.
type exchange struct {
	messages []agent.Message
	size     int
}

func exchanges(models []agent.ModelStep, tools []agent.ToolStep, steps []step) []exchange {
	sizes := make(map[int]int, len(models))
	for i := range steps {
		sizes[steps[i].key.Step] += len(steps[i].content) + len(steps[i].feedback)
	}
	results := indexTools(tools)
	all := make([]exchange, len(models))
	for i := range models {
		all[i] = exchange{messages: promoteStep(&models[i], results), size: sizes[models[i].Key.Step]}
	}
	return all
}

// budget is what is left of a prompt's bounds.
type budget struct{ messages, bytes int }

// take uses the budget up, and reports whether it was enough.
func (b *budget) take(messages, bytes int) bool {
	b.messages -= messages
	b.bytes -= bytes
	return b.messages >= 0 && b.bytes >= 0
}

// assemble fits a prompt into its budget, from the newest message to the oldest. past ends with the turn's own input; cut says that
// its beginning has been left out already.
func assemble(past []promptMessage, cut bool, steps []exchange, left budget) []agent.Message {
	own := len(past)
	for own > 0 && past[own-1].own {
		own--
		left.take(1, past[own].size)
	}
	first := len(steps)
	for first > 0 && (left.take(len(steps[first-1].messages), steps[first-1].size) || first == len(steps)) {
		first--
	}
	start := own
	for start > 0 && left.take(1, past[start-1].size) {
		start--
	}
	if cut || start > 0 {
		for start < own && past[start].Role != agent.RoleUser {
			start++
		}
	}
	messages := make([]agent.Message, 0, len(past)-start+2*(len(steps)-first))
	for _, m := range past[start:] {
		messages = append(messages, m.Message)
	}
	for _, e := range steps[first:] {
		messages = append(messages, e.messages...)
	}
	return messages
}
