package postgres

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// The newest attempt of a job is the one that is found by the job's id.
const yieldJobID = `
UPDATE agent_results SET job_id = gen_random_uuid() WHERE job_id = $1 AND tenant = $2 AND job_key = $3`

// resultColumns returns the values of a result's row, as [finishTurn] has them; calls are those of the turn in their order.
func resultColumns(f *agent.FinishRecord, o *agent.AgentStepOutput, id, job uuid.UUID, calls []callRow) ([]any, error) {
	data, err := encodeJSONB(f.Result)
	if err != nil {
		return nil, err
	}
	answer, err := encodeJSONB(f.Answer)
	if err != nil {
		return nil, err
	}
	status, cause := o.Status, o.Error
	if f.JobError != nil {
		status, cause = agent.TurnFailed, f.JobError
	}
	failure, err := encodeJSONB(cause)
	if err != nil {
		return nil, err
	}
	listed, hit := listCalls(calls)
	list, err := encodeJSONB(listed)
	if err != nil {
		return nil, err
	}
	output, err := encode(o)
	if err != nil {
		return nil, err
	}
	return []any{
		id, job, plain(f.RunID), plain(f.NodeID), data, f.CASID, string(status), failure, list, clamp(o.Usage.InputTokens + o.Usage.OutputTokens),
		o.Usage.CachedTokens > 0, clamp(o.ExecutionTimeMS), output, plain(f.JobID), max(o.Usage.CachedTokens, 0), f.CacheHit || hit, answer, f.S3Ref,
	}, nil
}

// Bounds of what a result's row says of its calls; the whole is in tool_calls.
const (
	maxListedCalls    = 1000
	maxListedArgs     = 16 << 10
	maxListedArgsSum  = 1 << 20
	maxListedNameRune = 256
)

// listedCall is a call in a result's row.
type listedCall struct {
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"` // as the model gave them; {"omitted_bytes": n} in place of large ones
	Status     string          `json:"status"`
	Step       int             `json:"step"`
	Ref        string          `json:"ref"`
	DurationMS int64           `json:"duration_ms"`
	CacheHit   bool            `json:"cache_hit"`
}

// listCalls makes the bounded list of a turn's calls, never nil, and says whether any was answered out of the cache.
func listCalls(calls []callRow) (listed []any, hit bool) {
	listed = make([]any, 0, min(len(calls), maxListedCalls+1))
	left := maxListedArgsSum
	for i := range calls {
		c := &calls[i]
		hit = hit || c.cacheHit
		if i >= maxListedCalls {
			continue
		}
		args := c.args
		if len(args) > maxListedArgs || len(args) > left {
			args = fmt.Appendf(nil, `{"omitted_bytes":%d}`, len(args))
		}
		left -= len(args)
		name := []rune(c.name)
		listed = append(listed, listedCall{
			Tool: string(name[:min(len(name), maxListedNameRune)]), Args: args, Status: c.status, Step: c.step, Ref: c.stored(), DurationMS: c.duration,
			CacheHit: c.cacheHit,
		})
	}
	if more := len(calls) - maxListedCalls; more > 0 {
		listed = append(listed, map[string]int{"omitted_calls": more})
	}
	return listed, hit
}

// callColumns returns the rows of tool_calls as columns.
func callColumns(rows []callRow) ([]any, error) {
	n := len(rows)
	var (
		steps                    = make([]int, n)
		ids, names, states, refs = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		args, datasets           = make([]*string, n), make([]*string, n)
		durations                = make([]int64, n)
		hits                     = make([]bool, n)
	)
	for i, r := range rows {
		raw, err := encodeRaw(r.args)
		if err != nil {
			return nil, err
		}
		dataset, err := encodeOptional(r.dataset)
		if err != nil {
			return nil, err
		}
		args[i], datasets[i] = textOf(raw), textOf(dataset)
		steps[i], ids[i], names[i], states[i], refs[i] = r.step, plain(string(r.id)), plain(r.name), r.status, plain(r.ref)
		durations[i], hits[i] = r.duration, r.cacheHit
	}
	return []any{steps, ids, names, args, states, refs, durations, datasets, hits}, nil
}

// textOf is an element of an array of text; nil is NULL.
func textOf(raw []byte) *string {
	if raw == nil {
		return nil
	}
	return new(string(raw))
}

// clamp limits a count to what an INTEGER column holds.
func clamp(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// jobNamespace makes job ids of turn ids that are no UUIDs.
//
//nolint:gochecknoglobals // a constant in all but syntax
var jobNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://turnstone.run/job"))

// jobIDs are the ids under which the result of a job is stored: the first one that no other result has. The job is the one that was
// named, else the turn; its id is itself when it is a UUID, and the UUIDv5 of it when not. Job ids come from outside, and must be
// unique in the table: one that another turn has taken must not keep this one from ending, and is still found by its tenant.
func jobIDs(tenant, job string, turn agent.TurnID) []uuid.UUID {
	if job == "" {
		job = string(turn)
	}
	id, err := uuid.Parse(job)
	if err != nil {
		id = uuid.NewSHA1(jobNamespace, []byte(job))
	}
	return []uuid.UUID{id, uuid.NewSHA1(jobNamespace, []byte(tenant+"\x00"+job))}
}
