package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// The session of a turn ($1) that ends: of one whose session is locked, with the holder from then on ($33), and of one ($2 its tenant) that
// holds its session with nobody behind it and as many steps as the caller knows of ($33). Whoever queues behind a turn changes the session's
// row, which is looked at again once it is locked.
const (
	releaseLocked = `
WITH session AS (
	UPDATE sessions s SET holder = nullif($33, ''), last_position = s.last_position + cardinality($4::text[])
	FROM turns t WHERE t.turn_id = $1` + ofTenant + ` AND s.tenant = t.tenant AND s.session_id = t.session_id
` + releasedSession
	releaseHeld = `
WITH session AS (
	UPDATE sessions s SET holder = NULL, last_position = s.last_position + cardinality($4::text[])
	FROM turns t WHERE t.turn_id = $1` + ofTenant + ` AND s.tenant = t.tenant AND s.session_id = t.session_id
		AND s.holder = t.turn_id AND s.last_seq = t.seq AND (SELECT count(*) FROM turn_steps p WHERE p.turn_id = $1) = $33::bigint
` + releasedSession
	releasedSession = `	RETURNING s.tenant, s.session_id, s.last_position, t.agent, t.created_at
)`
)

// finishTurn ends a turn. It follows releaseLocked or releaseHeld, and returns a row if it has ended the turn.
const finishTurn = `, turn AS (
	UPDATE turns t SET state = $3, finished_at = clock_timestamp() FROM session WHERE t.turn_id = $1
), output AS (
	INSERT INTO messages (tenant, session_id, turn_id, position, role, blocks, size)
	SELECT s.tenant, s.session_id, $1, s.last_position - cardinality($4::text[]) + m.n, m.role, m.blocks::json, octet_length(m.blocks)
	FROM session s, unnest($4::text[], $5::text[]) WITH ORDINALITY AS m (role, blocks, n)
), calls AS (
	INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, args, status, ref, duration_ms, dataset, cache_hit)
	SELECT $1, c.step, c.call_id, s.tenant, c.name, c.args::json, c.status, c.ref, c.duration, c.dataset::json, c.cache_hit
	FROM session s, unnest($6::integer[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::text[], $14::boolean[])
		AS c (step, call_id, name, args, status, ref, duration, dataset, cache_hit)
	ON CONFLICT DO NOTHING
), result AS (
	INSERT INTO agent_results (turn_id, tenant, session_id, created_at, completed_at, result_id, job_id, run_id, node_id, result_data, cas_id,
		status, error, tool_calls, tokens_used, cache_hit, execution_time_ms, output, job_key, cached_tokens, pipeline_cache_hit, answer, s3_ref)
	SELECT $1, s.tenant, s.session_id, s.created_at, clock_timestamp(), $15::uuid, $16::uuid, $17, coalesce(nullif($18, ''), s.agent), $19::jsonb,
		nullif($20, ''), $21, $22::jsonb, $23::jsonb, $24::integer, $25::boolean, $26::integer, $27::json, nullif($28, ''), $29::bigint, $30::boolean,
		$31::json, nullif($32, '')
	FROM session s
)
SELECT FROM session`

// finishValues returns the first 32 arguments of [finishTurn], and gives the output its reference.
func finishValues(f *agent.FinishRecord, o *agent.AgentStepOutput, job uuid.UUID, models []agent.ModelStep, tools []agent.ToolStep) ([]any, error) {
	produced, err := encodeMessages(promote(models, tools))
	if err != nil {
		return nil, err
	}
	rows := callRows(models, tools)
	calls, err := callColumns(rows)
	if err != nil {
		return nil, err
	}
	id := uuid.New()
	o.ResultRef = artifactScheme + id.String()
	named := *f
	named.RunID = cmp.Or(f.RunID, string(f.TurnID))
	result, err := resultColumns(&named, o, id, job, rows)
	if err != nil {
		return nil, err
	}
	values := []any{f.TurnID, f.Tenant, string(o.Status), produced.roles, produced.blocks}
	return slices.Concat(values, calls, result), nil
}

// finishAtOnce is [Store.Finish] in one round trip, for a completed turn that brings all its steps and has nobody behind it. ended is false,
// and nothing has changed, for any other.
func (s *Store) finishAtOnce(ctx context.Context, f *agent.FinishRecord, job uuid.UUID) (done agent.Finished, ended bool, err error) {
	if f.Output.Status != agent.TurnCompleted || f.JobID != "" || !isComplete(f.Models, f.Tools) {
		return agent.Finished{}, false, nil
	}
	done = agent.Finished{Output: f.Output, Ended: true}
	values, err := finishValues(f, &done.Output, job, f.Models, f.Tools)
	if err != nil {
		return agent.Finished{}, false, err
	}
	var b pgx.Batch
	b.Queue(releaseHeld+finishTurn, append(values, len(f.Models)+len(f.Tools))...).QueryRow(func(row pgx.Row) error {
		err := row.Scan()
		ended = err == nil
		return optional(err)
	})
	if err := s.queueClose(&b, f, &done, strings.TrimPrefix(done.Output.ResultRef, artifactScheme)); err != nil {
		return agent.Finished{}, false, err
	}
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return agent.Finished{}, false, uncertain(err)
	}
	return done, ended, nil
}

// isComplete reports whether steps are those of a turn to which nobody can add one: each call has its result.
func isComplete(models []agent.ModelStep, tools []agent.ToolStep) bool {
	unanswered := func(row callRow) bool { return row.status == callUnfinished }
	return len(models) > 0 && !slices.ContainsFunc(callRows(models, tools), unanswered)
}
