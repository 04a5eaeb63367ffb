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

// ResultStore stores the results of turns, and the cache of tool results.
type ResultStore struct{ *database }

const artifactScheme = "artifact://"

// ResultRow is a stored result. Its content is its rows or, if it has none, the document with the answer. The content is in Data or, if it is too large, in
// the blob store: see [ResultRow.ContentRef].
type ResultRow struct {
	ResultID        string
	Tenant          string
	JobID           string
	RunID           string
	NodeID          string
	TurnID          agent.TurnID
	SessionID       agent.SessionID
	Answer          json.RawMessage // {output, structured, blocks, data_ref}; nil if the content is the whole document
	Data            json.RawMessage // the content; nil if it is in the blob store or there is none
	CASID           string          // sha256:… of content in the blob store
	S3Ref           string          // s3://… of the same content
	TokensUsed      int64
	CacheHit        bool // whether the provider's prompt cache was used
	ExecutionTimeMS int64
	CreatedAt       time.Time // when the turn was recorded
	CompletedAt     time.Time
	Output          agent.AgentStepOutput
	Expired         bool // whether retention has removed the content
}

// ContentRef returns the cas:// reference of content in the blob store, or else its s3:// address. It returns "" if the content is in the row or there is
// none.
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

// Document returns the parts of {output, structured, blocks, data_ref, data} that are in the row, or nil if all of them are in the blob store.
func (r *ResultRow) Document() json.RawMessage {
	switch {
	case len(r.Answer) == 0:
		return r.Data
	case len(r.Data) == 0:
		return r.Answer
	}
	return slices.Concat(bytes.TrimSuffix(bytes.TrimSpace(r.Answer), []byte("}")), []byte(`,"data":`), r.Data, []byte("}"))
}

// readResult finds a result by its own id, else by that of its turn, else by that of its job, in which case it takes the newest turn.
const readResult = `
SELECT result_id::text, tenant, job_id::text, run_id, node_id, turn_id, session_id, answer, result_data, coalesce(cas_id, ''), coalesce(s3_ref, ''),
	tokens_used, cache_hit, execution_time_ms, created_at, completed_at, output, expired_at IS NOT NULL
FROM agent_results WHERE (result_id = $2 OR turn_id = $3 OR job_key = $3) AND (tenant = $1 OR $1 = '*')
ORDER BY result_id = $2 DESC NULLS LAST, turn_id = $3 DESC NULLS LAST, created_at DESC LIMIT 1`

// Result returns a result by artifact://<result_id>, by a bare result id, or by the id of a finished turn or of its job. The error is [agent.CodeNotFound]
// if the tenant does not have the result or it has expired, and [agent.CodeInvalid] for another scheme, such as the cas:// of the blob store. The tenant
// "*" stands for all tenants, for a system without authentication.
func (s *ResultStore) Result(ctx context.Context, tenant, ref string) (ResultRow, error) {
	const op = "read result"
	id, isArtifact := strings.CutPrefix(ref, artifactScheme)
	if !isArtifact && strings.Contains(ref, "://") {
		return ResultRow{}, agent.Invalid("ref", "%q is no artifact", ref)
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
	unknown := agent.Errorf(agent.CodeNotFound, op, "%q is not known", ref)
	found, err := queryRow(ctx, s.pool, unknown, pgx.RowToStructByPos[ResultRow], readResult, tenant, resultID, turnID)
	if err != nil {
		return ResultRow{}, mapError(op, err)
	}
	if found.Expired {
		return ResultRow{}, agent.Errorf(agent.CodeNotFound, op, "%q has expired: results are kept for as long as the retention says", ref)
	}
	return found, nil
}

const readMetadata = `
SELECT coalesce(job_key, ''), CASE WHEN status = 'failed' AND output->>'status' = 'completed' THEN
	coalesce(error, jsonb_build_object('type', $3::text, 'message', 'the last tool call failed; its error is no longer kept')) END,
	coalesce(tool_calls, '[]'), coalesce(tokens_used, 0), coalesce(cached_tokens, 0), coalesce(cache_hit, false),
	coalesce('cas://' || cas_id, ''), pipeline_cache_hit
FROM agent_results WHERE turn_id = $2 AND (tenant = $1 OR $1 = '*')`

// ResultMetadata returns the result of a finished turn without its output. Large arguments are replaced by their size, and the calls after the thousandth by
// their number. The error is [agent.CodeNotFound] if the tenant does not have the turn, or it has not finished.
func (s *ResultStore) ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (m agent.ResultMetadata, err error) {
	const op = "read result metadata"
	err = s.pool.QueryRow(ctx, readMetadata, tenant, id, agent.JobExecutionError).
		Scan(&m.JobID, &m.JobError, (*[]byte)(&m.ToolCalls), &m.TokensUsed, &m.CachedTokens, &m.CacheHit, &m.ContentRef, &m.PipelineCacheHit)
	return m, mapError(op, ifNoRows(err, agent.Errorf(agent.CodeNotFound, op, "turn %q has no result", id)))
}

// Bounds of the cache of results.
const (
	maxCachedBytes = 1 << 20
	maxCachedKey   = 256
	maxCached      = 10_000 // of a tenant
	maxCachedTime  = 30 * 24 * time.Hour
)

// recallResult ignores a cached result whose content is no longer in the ledger.
const recallResult = `
SELECT c.body FROM result_cache c JOIN blobs b ON b.tenant = c.tenant AND b.digest = c.digest
WHERE c.tenant = $1 AND c.key = $2 AND c.expires_at > clock_timestamp()`

// RecallResult returns the JSON that is cached under a key. ok is false if there is none, it has expired, or its content is gone. The content stays for at
// least another [Config.BlobGrace].
func (s *ResultStore) RecallResult(ctx context.Context, tenant, key string) (body json.RawMessage, ok bool, err error) {
	err = s.pool.QueryRow(ctx, recallResult, tenant, cleanText(key)).Scan((*[]byte)(&body))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return body, err == nil, mapError("recall result", err)
}

const rememberResult = `
INSERT INTO result_cache (tenant, key, body, digest, remembered_at, expires_at)
VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5::interval)
ON CONFLICT (tenant, key) DO UPDATE
SET body = excluded.body, digest = excluded.digest, remembered_at = excluded.remembered_at, expires_at = excluded.expires_at`

// evictResults deletes two results for each new one, so that a number above the bound shrinks.
const evictResults = `
DELETE FROM result_cache WHERE tenant = $1 AND key = ANY (ARRAY(
	SELECT key FROM result_cache WHERE tenant = $1 ORDER BY remembered_at DESC OFFSET $2 LIMIT 2))`

// RememberResult caches up to 1 MiB of JSON under a key for at most 30 days, and keeps the content of ref for that time. It replaces what was cached under
// the key. The cache holds the 10,000 newest results of a tenant. The error is [agent.CodeInvalid] for an invalid key, reference or ttl, and
// [agent.CodeOverflow] for more JSON.
func (s *ResultStore) RememberResult(ctx context.Context, tenant, key string, body json.RawMessage, ref string, ttl time.Duration) error {
	const op = "remember result"
	if err := checkText("key", key, maxCachedKey); err != nil {
		return err
	}
	digest, err := digestOf(ref)
	switch {
	case err != nil:
		return err
	case key == "":
		return agent.Invalid("key", "is empty")
	case ttl <= 0:
		return agent.Invalid("ttl", "want a time above 0, got %s", ttl)
	case len(body) > maxCachedBytes:
		return agent.Errorf(agent.CodeOverflow, op, "%d bytes, at most %d", len(body), maxCachedBytes)
	}
	text, err := encode(body)
	if err != nil {
		return mapError(op, err)
	}
	var b pgx.Batch
	b.Queue(rememberResult, tenant, key, text, digest, min(ttl, maxCachedTime))
	b.Queue(evictResults, tenant, maxCached)
	return mapError(op, s.send(ctx, &b))
}
