package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// ofTenant compares the tenant of a turn t that is found by its id. The expression keeps the planner from an index that begins with the tenant: in
// a database that was not analyzed yet it seems as good as the primary key, and reads all the tenant's turns.
const ofTenant = ` AND t.tenant || '' = $2`

// stepAllowed asks whether a producer may store a step: the turn has not ended (live) and no newer epoch of the producer has begun
// (newest). Both stay true until the transaction ends, because their rows are locked.
const stepAllowed = `
WITH turn AS (
	SELECT state IN ('queued', 'running') AS live FROM turns t WHERE turn_id = $1` + ofTenant + ` FOR SHARE
), producer AS (
	SELECT epoch FROM stream_producers WHERE stream_id = $3 AND producer = $4 FOR SHARE
), allowed AS (
	SELECT live, coalesce((SELECT epoch FROM producer), 0) <= $5::bigint AS newest FROM turn
)`

// stepAnswer reports what stepAllowed found, and whether the step is this writer's.
const stepAnswer = `
SELECT live, newest, EXISTS (SELECT FROM step) FROM allowed`

const (
	saveReply = stepAllowed + `, step AS (
	INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict, feedback)
	SELECT $1, $6::integer, '', $4, $5::bigint, $7::json, $8::json, $9 FROM allowed WHERE live AND newest
	ON CONFLICT DO NOTHING RETURNING step
)`
	saveModelStep  = saveReply + stepAnswer
	saveBilledStep = saveReply + `, bill AS (` + chargeStep + `$6` + chargeAmounts +
		`$10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::float8[], $17::boolean[]` + chargeTurn + `
)` + stepAnswer
)

const saveToolStep = stepAllowed + `, step AS (
	INSERT INTO turn_steps (turn_id, step, call_id, producer, epoch, content, verdict, name, args, data, preview, duration_ms, dataset,
		cache_hit)
	SELECT $1, $6::integer, $7, $4, $5::bigint, $8::json, $9::json, $10, $11::json, $12::json, $13::json, $14::bigint, $15::json, $16
	FROM allowed WHERE live AND newest
	ON CONFLICT DO NOTHING RETURNING step
)` + stepAnswer

// The ledger rows of a turn ($1) of a tenant ($2): between the parts stand the step, and the arrays of [billed].
const (
	chargeStep = `
INSERT INTO usage_ledger
	(turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, user_id, agent, session_id,
	channel, estimated)
SELECT $1, `
	chargeAmounts = `::integer, u.epoch, $2, u.model, u.input, u.output, u.cached, u.reasoning, u.cost::numeric, t.user_id, t.agent, t.session_id,
	t.channel, u.estimated
FROM turns t, unnest(`
	chargeTurn = `) AS u (epoch, model, input, output, cached, reasoning, cost, estimated)
WHERE t.turn_id = $1` + ofTenant + `
ON CONFLICT DO NOTHING`
	chargeUsage = chargeStep + `$3` + chargeAmounts +
		`$4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::float8[], $11::boolean[]` + chargeTurn
)

// SaveModelStep stores a finished model call and its ledger rows. The first complete step stands: saving again changes nothing. A
// writer that was overtaken by a newer epoch of its producer, or by the end of the turn, gets [agent.ErrFenced]; its ledger rows
// are kept even so, because the money was spent.
func (s *Store) SaveModelStep(ctx context.Context, m agent.ModelStep) error {
	const op = "save model step"
	content, err := encode(m.Blocks)
	if err != nil {
		return mapError(op, err)
	}
	verdict, err := encode(m.Verdict)
	if err != nil {
		return mapError(op, err)
	}
	sql := saveModelStep
	args := []any{
		m.Key.TurnID, m.Tenant, m.Fence.StreamID, m.Fence.Producer, m.Fence.Epoch, m.Key.Step, content, verdict, plain(m.Feedback),
	}
	if len(m.Calls) > 0 {
		sql, args = saveBilledStep, append(args, billed(m.Calls)...)
	}
	inserted, err := saved(s.pool.QueryRow(ctx, sql, args...), m.Key.TurnID)
	if inserted {
		s.kept.keepStep(keptStep{
			step: step{
				key: m.Key, fence: m.Fence, tenant: m.Tenant, content: content, verdict: verdict, feedback: plain(m.Feedback), calls: m.Calls,
			},
			asks: callIDs(m.Blocks),
		})
	}
	return mapError(op, err)
}

// callIDs returns the ids of the calls that a reply asks for.
func callIDs(reply []agent.Block) []agent.CallID {
	var ids []agent.CallID
	for i := range reply {
		if reply[i].Type == agent.BlockToolCall {
			ids = append(ids, agent.CallID(reply[i].ID))
		}
	}
	return ids
}

// SaveToolStep stores a finished tool call, under the rules of [Store.SaveModelStep].
func (s *Store) SaveToolStep(ctx context.Context, t agent.ToolStep) error {
	const op = "save tool step"
	if t.Key.CallID == "" {
		return &agent.Error{Code: agent.CodeInvalid, Op: op, Field: "call_id", Err: fmt.Errorf("is empty")}
	}
	var columns [6][]byte
	for i, encodeColumn := range []func() ([]byte, error){
		func() ([]byte, error) { return encode(t.Result) },
		func() ([]byte, error) { return encode(t.Verdict) },
		func() ([]byte, error) { return encodeRaw(t.Args) },
		func() ([]byte, error) { return encodeRaw(t.Data) },
		func() ([]byte, error) { return encodeRaw(t.Preview) },
		func() ([]byte, error) { return encodeOptional(t.Dataset) },
	} {
		var err error
		if columns[i], err = encodeColumn(); err != nil {
			return mapError(op, err)
		}
	}
	row := s.pool.QueryRow(ctx, saveToolStep, t.Key.TurnID, t.Tenant, t.Fence.StreamID, t.Fence.Producer, t.Fence.Epoch, t.Key.Step,
		t.Key.CallID, columns[0], columns[1], plain(t.Name), columns[2], columns[3], columns[4], t.DurationMS, columns[5], t.CacheHit)
	inserted, err := saved(row, t.Key.TurnID)
	if inserted {
		s.kept.keepStep(keptStep{step: step{
			key: t.Key, fence: t.Fence, tenant: t.Tenant, content: columns[0], verdict: columns[1], name: plain(t.Name), args: columns[2],
			data: columns[3], preview: columns[4], duration: t.DurationMS, dataset: t.Dataset, cacheHit: t.CacheHit,
		}})
	}
	return mapError(op, err)
}

// saved reads a [stepAnswer].
func saved(row pgx.Row, id agent.TurnID) (inserted bool, err error) {
	var live, newest bool
	err = row.Scan(&live, &newest, &inserted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, unknownTurn("", id)
	case err != nil:
		return false, err
	case !live:
		return false, fmt.Errorf("turn %q has ended: %w", id, agent.ErrFenced)
	case !newest:
		return false, agent.ErrFenced
	default:
		return inserted, nil
	}
}

// ChargeUsage adds ledger rows of model calls that were billed but stored no step. Keyed by turn, step and epoch: charging again
// changes nothing.
func (s *Store) ChargeUsage(ctx context.Context, key agent.StepKey, tenant string, rows []agent.UsageEntry) error {
	if len(rows) == 0 {
		return nil
	}
	var b pgx.Batch
	queueCharge(&b, key, tenant, rows)
	b.Queue(turnExists, key.TurnID, tenant).QueryRow(func(row pgx.Row) error {
		err := row.Scan()
		if errors.Is(err, pgx.ErrNoRows) {
			return unknownTurn("", key.TurnID)
		}
		return err
	})
	return mapError("charge usage", s.pool.SendBatch(ctx, &b).Close())
}

// The turn's own model is that of its last try; a child may have asked another.
const readBilled = `
WITH RECURSIVE family (turn_id) AS (
	SELECT $1::text COLLATE "C"
	UNION
	SELECT c.turn_id FROM turns c JOIN family f ON c.parent = f.turn_id WHERE c.parent <> ''
)
SELECT coalesce(sum(turnstone_sound(l.input_tokens)), 0)::bigint, coalesce(sum(turnstone_sound(l.output_tokens)), 0)::bigint,
	coalesce(sum(turnstone_sound(l.cached_tokens)), 0)::bigint, coalesce(sum(turnstone_sound(l.reasoning_tokens)), 0)::bigint,
	coalesce(sum(turnstone_sound(l.cost_usd)), 0)::float8, coalesce(bool_or(l.estimated), false),
	coalesce((SELECT model FROM usage_ledger WHERE turn_id = $1 ORDER BY step DESC, epoch DESC LIMIT 1), '')
FROM usage_ledger l JOIN family f ON f.turn_id = l.turn_id`

// BilledUsage adds up the ledger of a turn and of the turns that it asked for, and names the model that the turn was last billed for. A turn
// without rows has zeros.
func (s *Store) BilledUsage(ctx context.Context, id agent.TurnID) (u agent.Usage, model string, err error) {
	err = s.pool.QueryRow(ctx, readBilled, id).Scan(&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ReasoningTokens, &u.CostUSD,
		&u.Estimated, &model)
	return u, model, mapError("add up what a turn was billed", err)
}

const turnExists = `
SELECT FROM turns t WHERE turn_id = $1` + ofTenant

func queueCharge(b *pgx.Batch, key agent.StepKey, tenant string, rows []agent.UsageEntry) {
	if len(rows) > 0 {
		b.Queue(chargeUsage, append([]any{key.TurnID, tenant, key.Step}, billed(rows)...)...)
	}
}

// billed returns what calls were billed as columns.
func billed(rows []agent.UsageEntry) []any {
	var (
		n                                = len(rows)
		epochs                           = make([]int64, n)
		models                           = make([]string, n)
		input, output, cached, reasoning = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		costs                            = make([]float64, n)
		estimated                        = make([]bool, n)
	)
	for i, r := range rows {
		epochs[i], models[i] = int64(r.Epoch), plain(r.Model)
		input[i], output[i] = r.Usage.InputTokens, r.Usage.OutputTokens
		cached[i], reasoning[i] = r.Usage.CachedTokens, r.Usage.ReasoningTokens
		costs[i], estimated[i] = r.Usage.CostUSD, r.Usage.Estimated
	}
	return []any{epochs, models, input, output, cached, reasoning, costs, estimated}
}
