package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

const (
	lockStreams = `
SELECT FROM streams WHERE stream_id = ANY ($1) ORDER BY stream_id FOR UPDATE`
	// hideEvents makes followers see a gap.
	hideEvents = `
UPDATE streams SET first_index = last_index + 1 WHERE stream_id = ANY ($1) AND first_index <= last_index`
	markStreams = `
UPDATE streams SET swept = true WHERE stream_id = ANY ($1) AND closed_at IS NOT NULL AND NOT swept`
)

// removeEvents removes the events of the turns. It keeps the rows of their streams, so that followers see a gap and producers a closed stream.
func (r *removal) removeEvents(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
	if err := execAll(ctx, r.tx, []string{lockStreams, hideEvents}, c.turns); err != nil {
		return err
	}
	if err := r.deleteFrom(ctx, []string{"events", "stream_producers"}, "stream_id = ANY ($2)", c.turns); err != nil {
		return err
	}
	_, err := r.tx.Exec(ctx, markStreams, c.turns)
	return err
}

// readInactive returns those of the sessions $2 whose newest turn also ended before the time $3.
const readInactive = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE (SELECT t.finished_at FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id ORDER BY t.seq DESC LIMIT 1) < $3`

const removeTitles = `
UPDATE sessions SET title = '', titled_by = '' WHERE tenant = $1 AND session_id = ANY ($2) AND title <> ''`

// removeTranscripts removes the messages and steps of the turns, and the titles, notes, decisions and sources of sessions that have no newer turns. Other
// messages keep their positions.
func (r *removal) removeTranscripts(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	if err := r.deleteFrom(ctx, []string{"messages", "turn_steps"}, "turn_id = ANY ($2)", c.turns); err != nil {
		return err
	}
	inactive, err := queryRows(ctx, r.tx, pgx.RowTo[string], readInactive, w.Tenant, c.sessions, w.Before)
	if err != nil || len(inactive) == 0 {
		return err
	}
	if _, err := r.tx.Exec(ctx, removeTitles, w.Tenant, inactive); err != nil {
		return err
	}
	return r.deleteFrom(ctx, []string{"session_notes", "remembered_decisions", "reference_names", "session_references", "reference_lists"},
		"tenant = $2 AND session_id = ANY ($3)", w.Tenant, inactive)
}

// removeTraces removes the records of the calls, approvals and preparations of the turns.
func (r *removal) removeTraces(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
	return r.deleteFrom(ctx, []string{"tool_calls", "approvals", "prepared", "turn_tools"}, "turn_id = ANY ($2)", c.turns)
}

// removeRefs removes the references of the turns to content. The collection then removes content without references.
func (r *removal) removeRefs(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	holders := make([]string, len(c.turns))
	for i, id := range c.turns {
		holders[i] = "turn/" + id
	}
	return r.delete(ctx, deletion("blob_refs", "tenant = $2 AND holder = ANY ($3)"), w.Tenant, holders)
}

const (
	readOutputs = `
SELECT turn_id, session_id, status, output, coalesce(pg_column_size(result_data), 0) + coalesce(pg_column_size(answer), 0) + octet_length(output::text)
FROM agent_results WHERE turn_id = ANY ($1) AND expired_at IS NULL`
	expireResults = `
UPDATE agent_results r SET output = e.output::json, answer = NULL, result_data = NULL, cas_id = NULL, s3_ref = NULL, error = NULL, tool_calls = '[]',
	expired_at = clock_timestamp()
FROM unnest($1::text[], $2::text[]) AS e (turn_id, output) WHERE r.turn_id = e.turn_id`
)

// emptyResults removes the content of the results. It keeps the rows, because without them the turns could run again.
func (r *removal) emptyResults(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
	rows, err := r.tx.Query(ctx, readOutputs, c.turns)
	if err != nil {
		return err
	}
	var (
		turn, session, status string
		raw                   []byte
		size                  int64
		ids, outputs          []string
	)
	_, err = pgx.ForEachRow(rows, []any{&turn, &session, &status, &raw, &size}, func() error {
		emptied, err := emptyOutput(raw, turn, session, status)
		ids, outputs = append(ids, turn), append(outputs, string(emptied))
		r.removed, r.bytes = r.removed+1, r.bytes+size
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = r.tx.Exec(ctx, expireResults, ids, outputs)
	return err
}

// emptyOutput returns an output without content, which only says how the turn ended and what it used.
func emptyOutput(raw []byte, turn, session, status string) ([]byte, error) {
	var full agent.AgentStepOutput
	if err := json.Unmarshal(raw, &full); err != nil { // written by an older release in another form
		full = agent.AgentStepOutput{TurnID: agent.TurnID(turn), SessionID: agent.SessionID(session), Status: agent.TurnStatus(status)}
	}
	emptied := agent.AgentStepOutput{
		TurnID: full.TurnID, SessionID: full.SessionID, Agent: full.Agent, AgentInstanceID: full.AgentInstanceID, Status: full.Status,
		Blocks: []agent.Block{}, ResultRef: full.ResultRef, ToolCalls: []agent.ToolCallNote{}, Usage: full.Usage, StopReason: full.StopReason,
		StreamID: full.StreamID, ExecutionTimeMS: full.ExecutionTimeMS, Model: full.Model,
	}
	if full.Error != nil {
		emptied.Error = &agent.Failure{Type: full.Error.Type}
	}
	return encode(emptied)
}

// emptySessions returns those of the sessions $2 that have no turns left.
const emptySessions = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE NOT EXISTS (SELECT FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id)`

// removeTurns removes turns whose data has all been swept, and the sessions that then have no turns.
func (r *removal) removeTurns(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	for _, rows := range []string{
		"events WHERE stream_id", "stream_producers WHERE stream_id", "streams WHERE stream_id", "agent_results WHERE turn_id", "prepared WHERE turn_id",
		"approvals WHERE turn_id", "tool_calls WHERE turn_id", "turn_steps WHERE turn_id", "messages WHERE turn_id",
	} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+rows+` = ANY ($1)`, c.turns); err != nil {
			return err
		}
	}
	tag, err := r.tx.Exec(ctx, `DELETE FROM turns WHERE turn_id = ANY ($1)`, c.turns)
	if err != nil {
		return err
	}
	r.removed += tag.RowsAffected()
	empty, err := queryRows(ctx, r.tx, pgx.RowTo[string], emptySessions, w.Tenant, c.sessions)
	if err != nil || len(empty) == 0 {
		return err
	}
	for _, table := range []string{"session_notes", "remembered_decisions", "reference_lists", "sessions"} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+table+` WHERE tenant = $1 AND session_id = ANY ($2)`, w.Tenant, empty); err != nil {
			return err
		}
	}
	return nil
}
