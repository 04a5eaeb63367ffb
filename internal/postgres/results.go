package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const artifactScheme = "artifact://"

// ResultRow is a stored result. Its content, the rows or the document of a result without rows, is Data or, if it was too large
// for a row, in the blob store: see [ResultRow.ContentRef].
type ResultRow struct {
	ResultID        string
	Tenant          string
	JobID           string
	RunID           string
	NodeID          string
	TurnID          agent.TurnID
	SessionID       agent.SessionID
	Answer          json.RawMessage // {output, structured, blocks, data_ref}; nil: the content is the whole document
	Data            json.RawMessage // the content; nil when CASID or S3Ref is set, and when there is none
	CASID           string          // sha256:…
	S3Ref           string          // s3://… of the same content
	TokensUsed      int64
	CacheHit        bool // of the provider's prompt cache
	ExecutionTimeMS int64
	CreatedAt       time.Time // when the turn was first seen
	CompletedAt     time.Time
	Output          agent.AgentStepOutput
	Expired         bool // nothing of it is left but how the turn ended
}

// ContentRef is where in the blob store the content is, cas:// first, then s3://; empty if it is in the row, or if there is none.
func (r *ResultRow) ContentRef() string {
	switch {
	case len(r.Data) > 0:
		return ""
	case r.CASID != "":
		return "cas://" + r.CASID
	default:
		return r.S3Ref
	}
}

// Document returns {output, structured, blocks, data_ref, data} as far as the row holds it; nil if all of it is in the blob store.
func (r *ResultRow) Document() json.RawMessage {
	switch {
	case len(r.Answer) == 0:
		return r.Data
	case len(r.Data) == 0:
		return r.Answer
	}
	return slices.Concat(bytes.TrimSuffix(bytes.TrimSpace(r.Answer), []byte("}")), []byte(`,"data":`), r.Data, []byte("}"))
}

// A result id, a turn id and a job's id may look alike; they come in this order, and of two turns of one job the newest.
const readResult = `
SELECT result_id::text, tenant, job_id::text, run_id, node_id, turn_id, session_id, answer, result_data, coalesce(cas_id, ''), coalesce(s3_ref, ''),
	tokens_used, cache_hit, execution_time_ms, created_at, completed_at, output, expired_at IS NOT NULL
FROM agent_results WHERE (result_id = $2 OR turn_id = $3 OR job_key = $3) AND (tenant = $1 OR $1 = '*')
ORDER BY result_id = $2 DESC NULLS LAST, turn_id = $3 DESC NULLS LAST, created_at DESC LIMIT 1`

// Result resolves artifact://<result_id>, a bare result id, the id of a finished turn, or the id of a job that such a turn did. What the
// tenant does not have, or has no longer, is [agent.CodeNotFound] ("*" is every tenant, for a system without authentication), another scheme
// [agent.CodeInvalid]: cas:// references are the blob store's.
func (s *Store) Result(ctx context.Context, tenant, ref string) (ResultRow, error) {
	const op = "read result"
	id, isArtifact := strings.CutPrefix(ref, artifactScheme)
	if !isArtifact && strings.Contains(ref, "://") {
		return ResultRow{}, &agent.Error{
			Code: agent.CodeInvalid, Op: op, Field: "ref", Err: agent.Errorf(agent.CodeInvalid, "", "%q is no artifact", ref),
		}
	}
	var (
		resultID *uuid.UUID
		turnID   *string
	)
	if parsed, err := uuid.Parse(id); err == nil {
		resultID = &parsed
	}
	if !isArtifact {
		turnID = &id
	}
	rows, err := s.pool.Query(ctx, readResult, tenant, resultID, turnID)
	if err != nil {
		return ResultRow{}, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ResultRow])
	switch {
	case err != nil:
		return ResultRow{}, mapError(op, err)
	case len(found) == 0:
		return ResultRow{}, agent.Errorf(agent.CodeNotFound, op, "%q is not known", ref)
	case found[0].Expired:
		return ResultRow{}, agent.Errorf(agent.CodeNotFound, op, "%q has expired: results are kept for as long as the retention says", ref)
	}
	return found[0], nil
}

const readMetadata = `
SELECT coalesce(job_key, ''), CASE WHEN status = 'failed' AND output->>'status' = 'completed' THEN
	coalesce(error, jsonb_build_object('type', $3::text, 'message', 'the last tool call failed; its error is no longer kept')) END,
	coalesce(tool_calls, '[]'), coalesce(tokens_used, 0), coalesce(cached_tokens, 0), coalesce(cache_hit, false),
	coalesce('cas://' || cas_id, ''), pipeline_cache_hit
FROM agent_results WHERE turn_id = $2 AND (tenant = $1 OR $1 = '*')`

// ResultMetadata returns what the row of a finished turn says besides its output. Of large arguments the size stands in their place, and
// behind the thousandth call how many more there were. A turn that the tenant does not have, or that has not finished, is
// [agent.CodeNotFound].
func (s *Store) ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (m agent.ResultMetadata, err error) {
	const op = "read result metadata"
	err = s.pool.QueryRow(ctx, readMetadata, tenant, id, agent.JobExecutionError).
		Scan(&m.JobID, &m.JobError, (*[]byte)(&m.ToolCalls), &m.TokensUsed, &m.CachedTokens, &m.CacheHit, &m.ContentRef, &m.PipelineCacheHit)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, agent.Errorf(agent.CodeNotFound, op, "turn %q has no result", id)
	}
	return m, mapError(op, err)
}
