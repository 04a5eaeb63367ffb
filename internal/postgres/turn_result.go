package postgres

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// A job's id finds the newest attempt: older ones get another id.
const yieldJobID = `
UPDATE agent_results SET job_id = gen_random_uuid() WHERE job_id = $1 AND tenant = $2 AND job_key = $3`

// resultColumns returns the values of a result's row in the order of [finishTurn]. calls are those of the turn in their order.
func resultColumns(f *agent.FinishRecord, o *agent.AgentStepOutput, id, job uuid.UUID, calls []callRow) ([]any, error) {
	status, cause := o.Status, o.Error
	if f.JobError != nil {
		status, cause = agent.TurnFailed, f.JobError
	}
	listed, hit := listCalls(calls)
	var e columnEncoder
	return []any{
		id, job, cleanText(f.RunID), cleanText(f.NodeID), e.jsonb(f.Result), f.CASID, string(status), e.jsonb(cause), e.jsonb(listed),
		clamp(o.Usage.InputTokens + o.Usage.OutputTokens), o.Usage.CachedTokens > 0, clamp(o.ExecutionTimeMS), e.json(o), cleanText(f.JobID),
		max(o.Usage.CachedTokens, 0), f.CacheHit || hit, e.jsonb(f.Answer), f.S3Ref,
	}, e.err
}

// Bounds of the list of calls in a result's row. All calls are in tool_calls.
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

// listCalls returns the bounded list of a turn's calls, never nil, and whether the cache answered any of them.
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
			Tool: string(name[:min(len(name), maxListedNameRune)]), Args: args, Status: c.status, Step: c.step, Ref: c.contentRef(), DurationMS: c.duration,
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
		steps[i], ids[i], names[i], states[i], refs[i] = r.step, cleanText(string(r.id)), cleanText(r.name), r.status, cleanText(r.ref)
		durations[i], hits[i] = r.duration, r.cacheHit
	}
	return []any{steps, ids, names, args, states, refs, durations, datasets, hits}, nil
}

// textOf returns an element of an array of text; nil becomes NULL.
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

// jobNamespace is the namespace of the ids of jobs that are no UUIDs.
//
//nolint:gochecknoglobals // a constant in all but syntax
var jobNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://turnstone.run/job"))

// jobIDs returns ids for the result of a job: it gets the first that no other result has. Without a job the turn counts as one. The id of a
// UUID is the UUID itself, else a UUIDv5 of the job. Ids of jobs come from outside and must be unique in the table: a taken one must not
// prevent the turn from ending, and the tenant still finds the result by its job.
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

// contentRef returns the reference of the content that the call stored, "" if there is none.
func (c *callRow) contentRef() string {
	if c.ref == "" && c.dataset != nil {
		return c.dataset.Ref
	}
	return c.ref
}

const callUnfinished = "unfinished"

// callRows returns the calls that the models asked for, with their outcomes.
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
