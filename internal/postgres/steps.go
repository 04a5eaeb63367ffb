package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// StepStore stores the steps of turns, which are finished calls of models and of tools, and the results of preparations.
type StepStore struct {
	*database

	cache *turnCache
	later *laterSteps
}

// ofTenant compares the tenant of a turn t that is found by its id. It is an expression so that the planner does not use an index that begins
// with the tenant: before the first ANALYZE that index seems as good as the primary key, but reads all turns of the tenant.
const ofTenant = ` AND t.tenant || '' = $2`

// stepAllowed reads whether a producer may store a step: live, the turn has not ended; newest, no newer epoch of the producer has begun;
// logged, the events of the step are stored ($6 is the generation of their stream, or 0 without events, and $7 the index of the last one).
// The rows are locked, so that live and newest do not change before the transaction ends.
const stepAllowed = `
WITH turn AS (
	SELECT state IN ('queued', 'running') AS live FROM turns t WHERE turn_id = $1` + ofTenant + ` FOR SHARE
), producer AS (
	SELECT epoch FROM stream_producers WHERE stream_id = $3 AND producer = $4 FOR SHARE
), allowed AS (
	SELECT live, coalesce((SELECT epoch FROM producer), 0) <= $5::bigint AS newest, $6::bigint = 0 OR EXISTS (
		SELECT FROM streams WHERE stream_id = $3 AND generation = $6 AND last_index >= $7::bigint
	) AS logged FROM turn
)`

// allowedNow selects a row if [stepAllowed] allows the step.
const allowedNow = ` FROM allowed WHERE live AND newest AND logged`

// stepAnswer returns the columns of [stepAllowed], and whether this statement has stored the step.
const stepAnswer = `
SELECT live, newest, logged, EXISTS (SELECT FROM step) FROM allowed`

const (
	saveReply = stepAllowed + `, step AS (
	INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict, feedback)
	SELECT $1, $8::integer, '', $4, $5::bigint, $9::json, $10::json, $11` + allowedNow + `
	ON CONFLICT DO NOTHING RETURNING step
)`
	saveModelStep  = saveReply + stepAnswer
	saveBilledStep = saveReply + `, bill AS (` + chargeStep + `$8` + chargeAmounts +
		`$12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::float8[], $19::boolean[]` + chargeTurn + `
)` + stepAnswer
)

const saveToolStep = stepAllowed + `, step AS (
	INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict, name, args, data, preview, duration_ms, dataset,
		cache_hit)
	SELECT $1, $8::integer, $9, $4, $5::bigint, $10::json, $11::json, $12, $13::json, $14::json, $15::json, $16::bigint, $17::json, $18` +
	allowedNow + `
	ON CONFLICT DO NOTHING RETURNING step
)` + stepAnswer

// SaveModelStep stores a finished model call and its ledger rows. Saving a stored step again changes nothing. If a newer epoch of the producer
// has begun, or the turn has ended, the error is [agent.ErrFenced], but the ledger rows are stored nevertheless, because the money was spent.
func (s *StepStore) SaveModelStep(ctx context.Context, m agent.ModelStep) error {
	const op = "save model step"
	var e columnEncoder
	content, verdict := e.json(m.Blocks), e.json(m.Verdict)
	if e.err != nil {
		return mapError(op, e.err)
	}
	sql := saveModelStep
	args := []any{m.Key.Step, content, verdict, cleanText(m.Feedback)}
	if len(m.Calls) > 0 {
		sql, args = saveBilledStep, append(args, usageArrays(m.Calls)...)
	}
	row := cachedStep{
		step: step{
			key: m.Key, fence: m.Fence, tenant: m.Tenant, content: content, verdict: verdict, feedback: cleanText(m.Feedback), calls: m.Calls,
		},
		asks: callIDs(m.Blocks),
	}
	return mapError(op, s.saveStep(ctx, &row, m.Events, sql, args...))
}

// callIDs returns the ids of the calls in a reply.
func callIDs(reply []agent.Block) []agent.CallID {
	var ids []agent.CallID
	for i := range reply {
		if reply[i].Type == agent.BlockToolCall {
			ids = append(ids, agent.CallID(reply[i].ID))
		}
	}
	return ids
}

// SaveToolStep stores a finished tool call, under the rules of [StepStore.SaveModelStep]. A step with Later set is kept in memory until the next
// step or the end of its turn is stored; that call then returns an error that refuses the step.
func (s *StepStore) SaveToolStep(ctx context.Context, t agent.ToolStep) error {
	const op = "save tool step"
	if t.Key.CallID == "" {
		return agent.Invalid("call_id", "is empty")
	}
	var e columnEncoder
	row := cachedStep{step: step{
		key: t.Key, fence: t.Fence, tenant: t.Tenant, content: e.json(t.Result), verdict: e.json(t.Verdict), name: cleanText(t.Name),
		args: e.raw(t.Args), data: e.raw(t.Data), preview: e.raw(t.Preview), duration: t.DurationMS, dataset: t.Dataset, cacheHit: t.CacheHit,
	}}
	dataset := e.keep(encodeOptional(t.Dataset))
	if e.err != nil {
		return mapError(op, e.err)
	}
	values := []any{
		t.Key.Step, t.Key.CallID, row.content, row.verdict, row.name, row.args, row.data, row.preview, row.duration, dataset, row.cacheHit,
	}
	if t.Later && s.later.add(t.Key.TurnID, &laterStep{sql: saveToolStep, args: stepArgs(&row, nil, values)}, row.size()) {
		s.cache.addStep(row)
		return nil
	}
	return mapError(op, s.saveStep(ctx, &row, t.Events, saveToolStep, values...))
}

// StoreLater stores the steps of a turn that are only in memory, because they were saved with Later set.
func (s *StepStore) StoreLater(ctx context.Context, id agent.TurnID) error {
	return mapError("store steps", s.later.store(ctx, s.database, id))
}

// eventWriter is implemented by the [agent.UnstoredEvents] of an event log in the same database. Queue adds the statement that stores them.
type eventWriter interface{ Queue(b *pgx.Batch) }

// stepArgs returns the arguments of a statement that begins with [stepAllowed]; values are those from $8 on.
func stepArgs(row *cachedStep, events agent.UnstoredEvents, values []any) []any {
	var generation, last int64
	if events != nil {
		generation, last = events.Position()
	}
	return append([]any{row.key.TurnID, row.tenant, row.fence.StreamID, row.fence.Producer, row.fence.Epoch, generation, last}, values...)
}

// saveStep stores a step by a statement that begins with [stepAllowed]. The same transaction stores the step's events and the turn's steps that
// were only in memory.
func (s *StepStore) saveStep(ctx context.Context, row *cachedStep, events agent.UnstoredEvents, sql string, values ...any) error {
	var b pgx.Batch
	if events != nil {
		w, ok := events.(eventWriter)
		if !ok {
			return agent.ErrEventsNotStored
		}
		w.Queue(&b)
	}
	id := row.key.TurnID
	waited := s.later.queue(&b, id)
	var (
		inserted bool
		refused  error // the transaction is committed even then
	)
	b.Queue(sql, stepArgs(row, events, values)...).QueryRow(func(row pgx.Row) error {
		inserted, refused = scanStepAnswer(row, id)
		return nil
	})
	err := s.send(ctx, &b)
	if events != nil {
		events.Done(err == nil)
	}
	if inserted && err == nil {
		s.cache.addStep(*row)
	}
	return cmp.Or(err, waited.done(err == nil), refused)
}

// scanStepAnswer scans a [stepAnswer].
func scanStepAnswer(row pgx.Row, id agent.TurnID) (inserted bool, err error) {
	var live, newest, logged bool
	err = row.Scan(&live, &newest, &logged, &inserted)
	switch {
	case err != nil:
		return false, ifNoRows(err, unknownTurn("", id))
	case !live:
		return false, fmt.Errorf("turn %q has ended: %w", id, agent.ErrFenced)
	case !newest:
		return false, agent.ErrFenced
	case !logged:
		return false, agent.ErrEventsNotStored
	default:
		return inserted, nil
	}
}

// ledgerRows selects the ledger rows of a step as one JSON array. The number of the step must follow it.
const ledgerRows = `
		SELECT json_agg(json_build_object('Epoch', l.epoch, 'Model', l.model, 'Usage', json_build_object(
			'input_tokens', l.input_tokens, 'output_tokens', l.output_tokens, 'cached_tokens', l.cached_tokens,
			'reasoning_tokens', l.reasoning_tokens, 'cost_usd', l.cost_usd, 'estimated', l.estimated,
			'unpriced', ` + unpriced + `)) ORDER BY l.epoch)
		FROM usage_ledger l WHERE l.turn_id = s.turn_id AND l.step = `

// stepColumns selects the columns for [scanStep].
const stepColumns = `
SELECT s.turn_id, s.step, s.call_id, s.producer, s.epoch, t.tenant, s.content, s.verdict, s.feedback, s.name, s.args, s.data, s.preview,
	s.duration_ms, s.dataset, s.cache_hit, CASE WHEN s.call_id = '' THEN (` + ledgerRows + `s.step) END
FROM turn_steps s JOIN turns t ON t.turn_id = s.turn_id`

// stepOutline is stepColumns with NULL for large columns that are not part of a transcript. It includes the arguments only if a person has edited
// them, because otherwise the reply has the same.
const stepOutline = `
SELECT s.turn_id, s.step, s.call_id, s.producer, s.epoch, t.tenant, s.content, s.verdict, s.feedback, s.name,
	CASE WHEN s.call_id <> '' AND EXISTS (
		SELECT FROM approvals a WHERE a.turn_id = s.turn_id AND a.step = s.step AND a.call_id = s.call_id AND a.decision = 'edit'
	) THEN s.args END, NULL::json, NULL::json, s.duration_ms, s.dataset, s.cache_hit, NULL::json
FROM turn_steps s JOIN turns t ON t.turn_id = s.turn_id`

const (
	readCall     = stepColumns + ` WHERE s.turn_id = $1 AND s.step = $2 AND s.call_id IN ('', $3)`
	readStep     = stepColumns + ` WHERE s.turn_id = $1 AND s.step = $2 AND s.call_id = $3`
	readAllSteps = stepColumns + ` WHERE s.turn_id = $1 ORDER BY s.step, s.call_id`
)

// step is one row of turn_steps: a model's reply if its key has no call id, otherwise the result of a tool call.
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
	if err := decode(s.content, &m.Blocks); err != nil {
		return agent.ModelStep{}, err
	}
	return m, decode(s.verdict, &m.Verdict)
}

func (s *step) tool() (agent.ToolStep, error) {
	t := agent.ToolStep{
		Key: s.key, Fence: s.fence, Tenant: s.tenant, Name: s.name, Args: s.args, Data: s.data, Preview: s.preview,
		Dataset: s.dataset, CacheHit: s.cacheHit, DurationMS: s.duration,
	}
	if err := decode(s.content, &t.Result); err != nil {
		return agent.ToolStep{}, err
	}
	return t, decode(s.verdict, &t.Verdict)
}

// readSteps reads steps of a turn. It first stores those that are only in memory.
func (s *StepStore) readSteps(ctx context.Context, id agent.TurnID, sql string, args ...any) ([]step, error) {
	if err := s.later.store(ctx, s.database, id); err != nil {
		return nil, err
	}
	return queryRows(ctx, s.pool, scanStep, sql, args...)
}

// ModelStep returns the finished model call of a step; ok is false if there is none.
func (s *StepStore) ModelStep(ctx context.Context, key agent.StepKey) (m agent.ModelStep, ok bool, err error) {
	found, err := s.readSteps(ctx, key.TurnID, readStep, key.TurnID, key.Step, "")
	if err == nil && len(found) > 0 {
		m, err = found[0].model()
	}
	return m, len(found) > 0, mapError("read model call", err)
}

// ToolStep returns the result of a tool call; ok is false if there is none.
func (s *StepStore) ToolStep(ctx context.Context, key agent.StepKey) (t agent.ToolStep, ok bool, err error) {
	found, err := s.readSteps(ctx, key.TurnID, readStep, key.TurnID, key.Step, key.CallID)
	if err == nil && len(found) > 0 {
		t, err = found[0].tool()
	}
	return t, len(found) > 0, mapError("read tool call", err)
}

// CallSteps returns the reply of a step and the result of one of its calls, or nil for a missing one. If this process has stored the reply,
// CallSteps does not ask the database, and misses a result that another process has stored.
func (s *StepStore) CallSteps(ctx context.Context, key agent.StepKey) (reply *agent.ModelStep, result *agent.ToolStep, err error) {
	found := s.cache.callSteps(key)
	if len(found) == 0 {
		if found, err = s.readSteps(ctx, key.TurnID, readCall, key.TurnID, key.Step, key.CallID); err != nil {
			return nil, nil, mapError("read call", err)
		}
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

// Steps returns all finished steps of a turn: model calls by step, tool calls by step and call id. If this process has stored all steps up to a
// reply without calls, Steps does not ask the database. If another process has added a step since, [TurnStore.Finish] returns Stale.
func (s *StepStore) Steps(ctx context.Context, id agent.TurnID) ([]agent.ModelStep, []agent.ToolStep, error) {
	found, ok := s.cache.allSteps(id)
	if !ok {
		var err error
		if found, err = s.readSteps(ctx, id, readAllSteps, id); err != nil {
			return nil, nil, mapError("read steps", err)
		}
	}
	models, tools, err := splitSteps(found)
	return models, tools, mapError("decode steps", err)
}

// StepMessages returns the steps of a turn before a step as the messages of a prompt. last is the step of the last model call, or the step after it
// if the reply has tool calls, so that another model call would have followed. The error is [agent.CodeOverflow] if the messages are larger than
// [Config.PromptBytes].
func (s *StepStore) StepMessages(ctx context.Context, id agent.TurnID, before int) (messages []agent.Message, last int, err error) {
	const op = "read steps"
	found, err := s.readSteps(ctx, id, readOutline, id)
	if err != nil {
		return nil, 0, mapError(op, err)
	}
	size := 0
	for i := range found {
		if found[i].key.Step < before {
			size += len(found[i].content) + len(found[i].feedback)
		}
	}
	if size > s.cfg.PromptBytes {
		return nil, 0, agent.Errorf(agent.CodeOverflow, op, "the steps of turn %q before step %d are %d bytes, at most %d", id, before, size, s.cfg.PromptBytes)
	}
	models, tools, err := splitSteps(found)
	last = 1
	results := toolsByKey(tools)
	for i := range models {
		m := &models[i]
		if last = m.Key.Step; len(agent.ToolCalls(m.Blocks)) > 0 {
			last++
		}
		if m.Key.Step < before {
			messages = append(messages, messagesOfStep(m, results)...)
		}
	}
	return messages, last, mapError(op, err)
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
