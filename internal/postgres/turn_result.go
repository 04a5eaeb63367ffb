package postgres

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// yieldJobID gives the results of earlier attempts at a job another job id, so that the job's id finds the newest attempt.
const yieldJobID = `
UPDATE agent_results SET job_id = gen_random_uuid() WHERE job_id = $1 AND tenant = $2 AND job_key = $3`

// resultColumns returns the values of a result's row in the order of [finishTurn].
func resultColumns(f *agent.FinishRecord, o *agent.AgentStepOutput, id, job uuid.UUID, calls []callRow) ([]any, error) {
	status, cause := o.Status, o.Error
	if f.JobError != nil {
		status, cause = agent.TurnFailed, f.JobError
	}
	listed, anyCached := listCalls(calls)
	var e columnEncoder
	return []any{
		id, job, cleanText(f.RunID), cleanText(f.NodeID), e.jsonb(f.Result), f.CASID, string(status), e.jsonb(cause), e.jsonb(listed),
		clamp(o.Usage.InputTokens + o.Usage.OutputTokens), o.Usage.CachedTokens > 0, clamp(o.ExecutionTimeMS), e.json(o), cleanText(f.JobID),
		max(o.Usage.CachedTokens, 0), f.CacheHit || anyCached, e.jsonb(f.Answer), f.S3Ref,
	}, e.err
}

// Bounds of the list of calls in a result's row. The table tool_calls has all calls.
const (
	maxListedCalls    = 1000
	maxListedArgs     = 16 << 10
	maxListedArgsSum  = 1 << 20
	maxListedNameRune = 256
)

// listedCall is a call in a result's row.
type listedCall struct {
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"` // as the model gave them, or {"omitted_bytes": n} if they are too large
	Status     string          `json:"status"`
	Step       int             `json:"step"`
	Ref        string          `json:"ref"`
	DurationMS int64           `json:"duration_ms"`
	CacheHit   bool            `json:"cache_hit"`
}

// listCalls returns the bounded list of a turn's calls, which is never nil, and whether any result came from the cache.
func listCalls(calls []callRow) (listed []any, anyCached bool) {
	listed = make([]any, 0, min(len(calls), maxListedCalls+1))
	remainingArgs := maxListedArgsSum
	for i := range calls {
		c := &calls[i]
		anyCached = anyCached || c.cacheHit
		if i >= maxListedCalls {
			continue
		}
		args := c.args
		if len(args) > maxListedArgs || len(args) > remainingArgs {
			args = fmt.Appendf(nil, `{"omitted_bytes":%d}`, len(args))
		}
		remainingArgs -= len(args)
		name := []rune(c.name)
		listed = append(listed, listedCall{
			Tool: string(name[:min(len(name), maxListedNameRune)]), Args: args, Status: c.status, Step: c.step, Ref: c.contentRef(), DurationMS: c.duration,
			CacheHit: c.cacheHit,
		})
	}
	if omitted := len(calls) - maxListedCalls; omitted > 0 {
		listed = append(listed, map[string]int{"omitted_calls": omitted})
	}
	return listed, anyCached
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
		steps[i], ids[i], names[i], states[i], refs[i] = r.step, cleanText(string(r.id)), cleanText(r.name), r.status, cleanText(r.ref)
		durations[i], hits[i] = r.duration, r.cacheHit
	}
	return []any{steps, ids, names, args, states, refs, durations, datasets, hits}, nil
}

// textOf returns raw as an element of an array of text. nil becomes NULL.
func textOf(raw []byte) *string {
	if raw == nil {
		return nil
	}
	return new(string(raw))
}

// clamp limits a count to the range of an INTEGER column.
func clamp(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// jobNamespace is the UUID namespace of the ids of jobs.
//
//nolint:gochecknoglobals // never changes
var jobNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://turnstone.run/job"))

// jobIDs returns the ids to try for the result of a job, or of a turn without a job: the job itself if it is a UUID, otherwise a UUIDv5 of it,
// and then a UUIDv5 that includes the tenant. Callers choose job ids and they must be unique in the table, but a taken id must not prevent
// the turn from ending. The tenant finds the result by its job in any case.
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

// callRow is one row of tool_calls.
type callRow struct {
	step     int
	id       agent.CallID
	name     string
	args     json.RawMessage
	status   string
	ref      string
	duration int64
	dataset  *agent.Dataset
	cacheHit bool
}

// contentRef returns the reference to the content that the call has stored, or "".
func (c *callRow) contentRef() string {
	if c.ref == "" && c.dataset != nil {
		return c.dataset.Ref
	}
	return c.ref
}

const callUnfinished = "unfinished"

// callRows returns the calls in the replies of a turn, with their outcomes.
func callRows(models []agent.ModelStep, tools []agent.ToolStep) []callRow {
	results := toolsByKey(tools)
	var rows []callRow
	for i := range models {
		for _, call := range agent.ToolCalls(models[i].Blocks) {
			row := callRow{step: models[i].Key.Step, id: call.ID, name: call.Name, args: call.Args, status: callUnfinished}
			if t := results[agent.StepKey{Step: row.step, CallID: call.ID}]; t != nil {
				row.status, row.ref, row.duration = agent.ResultSuccess, t.Verdict.Ref, t.DurationMS
				row.dataset, row.cacheHit = t.Dataset, t.CacheHit
				if t.Verdict.Failed || t.Result.Status == agent.ResultError {
					row.status = agent.ResultError
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}
