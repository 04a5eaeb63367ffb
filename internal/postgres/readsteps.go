package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// ledgerRows makes one JSON array of the ledger's rows l of a step.
const ledgerRows = `
		SELECT json_agg(json_build_object('Epoch', l.epoch, 'Model', l.model, 'Usage', json_build_object(
			'input_tokens', l.input_tokens, 'output_tokens', l.output_tokens, 'cached_tokens', l.cached_tokens,
			'reasoning_tokens', l.reasoning_tokens, 'cost_usd', l.cost_usd, 'estimated', l.estimated)) ORDER BY l.epoch)
		FROM usage_ledger l WHERE l.turn_id = s.turn_id AND l.step = `

// stepColumns are what [scanStep] reads.
const stepColumns = `
SELECT s.turn_id, s.step, s.call_id, s.producer, s.epoch, t.tenant, s.content, s.verdict, s.feedback, s.name, s.args, s.data, s.preview,
	s.duration_ms, s.dataset, s.cache_hit, CASE WHEN s.call_id = '' THEN (` + ledgerRows + `s.step) END
FROM turn_steps s JOIN turns t ON t.turn_id = s.turn_id`

// stepOutline has the columns of stepColumns without what is large and not part of a transcript.
const stepOutline = `
SELECT s.turn_id, s.step, s.call_id, s.producer, s.epoch, t.tenant, s.content, s.verdict, s.feedback, s.name, NULL::json, NULL::json,
	NULL::json, s.duration_ms, s.dataset, s.cache_hit, NULL::json
FROM turn_steps s JOIN turns t ON t.turn_id = s.turn_id`

const (
	readCall  = stepColumns + ` WHERE s.turn_id = $1 AND s.step = $2 AND s.call_id IN ('', $3)`
	readSteps = stepColumns + ` WHERE s.turn_id = $1 ORDER BY s.step, s.call_id`
)

// step is one row of turn_steps: a model's reply when its key has no call id, else a tool's answer.
type step struct {
	key      agent.StepKey
	fence    agent.Fence
	tenant   string
	content  []byte
	verdict  []byte
	feedback string
	name     string
	args     []byte
	data     []byte
	preview  []byte
	duration int64
	dataset  *agent.Dataset
	cacheHit bool
	calls    []agent.UsageEntry
}

func scanStep(row pgx.CollectableRow) (s step, err error) {
	err = row.Scan(&s.key.TurnID, &s.key.Step, &s.key.CallID, &s.fence.Producer, &s.fence.Epoch, &s.tenant, &s.content, &s.verdict,
		&s.feedback, &s.name, &s.args, &s.data, &s.preview, &s.duration, &s.dataset, &s.cacheHit, &s.calls)
	s.fence.StreamID = string(s.key.TurnID)
	return s, err
}

func (s *step) model() (agent.ModelStep, error) {
	m := agent.ModelStep{Key: s.key, Fence: s.fence, Tenant: s.tenant, Calls: s.calls, Feedback: s.feedback}
	if err := json.Unmarshal(s.content, &m.Blocks); err != nil {
		return agent.ModelStep{}, err
	}
	return m, json.Unmarshal(s.verdict, &m.Verdict)
}

func (s *step) tool() (agent.ToolStep, error) {
	t := agent.ToolStep{
		Key: s.key, Fence: s.fence, Tenant: s.tenant, Name: s.name, Args: s.args, Data: s.data, Preview: s.preview,
		Dataset: s.dataset, CacheHit: s.cacheHit, DurationMS: s.duration,
	}
	if err := json.Unmarshal(s.content, &t.Result); err != nil {
		return agent.ToolStep{}, err
	}
	return t, json.Unmarshal(s.verdict, &t.Verdict)
}

// ModelStep returns the finished model call of a step; ok is false when there is none.
func (s *Store) ModelStep(ctx context.Context, key agent.StepKey) (m agent.ModelStep, ok bool, err error) {
	key.CallID = ""
	reply, _, err := s.CallSteps(ctx, key)
	if err != nil || reply == nil {
		return agent.ModelStep{}, false, err
	}
	return *reply, true, nil
}

// CallSteps returns the reply of a step and the result of one of its calls, nil where there is none. It is one round trip.
func (s *Store) CallSteps(ctx context.Context, key agent.StepKey) (reply *agent.ModelStep, result *agent.ToolStep, err error) {
	rows, err := s.pool.Query(ctx, readCall, key.TurnID, key.Step, key.CallID)
	if err != nil {
		return nil, nil, mapError("read call", err)
	}
	found, err := pgx.CollectRows(rows, scanStep)
	if err != nil {
		return nil, nil, mapError("read call", err)
	}
	models, tools, err := splitSteps(found)
	if len(models) > 0 {
		reply = &models[0]
	}
	if len(tools) > 0 {
		result = &tools[0]
	}
	return reply, result, mapError("decode call", err)
}

// Steps returns all finished steps of a turn: model calls by step, tool calls by step and then by call id. It reads nothing if this process
// has stored steps that end with a reply without calls; should another process have stored one behind it, [Store.Finish] answers Stale.
func (s *Store) Steps(ctx context.Context, id agent.TurnID) ([]agent.ModelStep, []agent.ToolStep, error) {
	if kept, ok := s.kept.allSteps(id); ok {
		models, tools, err := splitSteps(kept)
		return models, tools, mapError("decode steps", err)
	}
	rows, err := s.pool.Query(ctx, readSteps, id)
	if err != nil {
		return nil, nil, mapError("read steps", err)
	}
	found, err := pgx.CollectRows(rows, scanStep)
	if err != nil {
		return nil, nil, mapError("read steps", err)
	}
	models, tools, err := splitSteps(found)
	return models, tools, mapError("decode steps", err)
}

func splitSteps(found []step) (models []agent.ModelStep, tools []agent.ToolStep, err error) {
	for i := range found {
		if found[i].key.CallID == "" {
			m, err := found[i].model()
			if err != nil {
				return nil, nil, err
			}
			models = append(models, m)
			continue
		}
		t, err := found[i].tool()
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, t)
	}
	return models, tools, nil
}
