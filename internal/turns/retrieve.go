package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	prepareProducer = "prepare"
	maxQuery        = 1_000 // bytes of a search query
)

// Retrieve prepares a turn: it finds the branch of the message, the question as it would be asked without the conversation, and the passages
// that answer it. Each step is an event. A stored preparation is returned as it is.
func (ts *Turns) Retrieve(ctx context.Context, in RetrieveInput) (verdict agent.PrepareVerdict, err error) {
	ctx, done := ts.watch(ctx, "Retrieve", in.TurnID, 0)
	defer func() { done(err) }()
	if v, ok, err := ts.storedPreparation(ctx, in.TurnID); err != nil || ok {
		return v, err
	}
	run, _, err := ts.newModelRun(ctx, CallModelInput{TurnID: in.TurnID, BudgetMS: in.BudgetMS, PausedMS: in.PausedMS})
	if err != nil {
		return agent.PrepareVerdict{}, err
	}
	run.quiet = true
	p := preparation{modelRun: run, answer: agent.Prepared{TurnID: run.turn.TurnID, Tenant: run.turn.Tenant, Passages: []agent.Passage{}}}
	isStored := func(ctx context.Context) (bool, error) {
		_, ok, err := ts.storedPreparation(ctx, in.TurnID)
		return ok, err
	}
	p.events, p.watched, err = ts.produce(ctx, run.turn.TurnRef, prepareProducer, isStored)
	switch {
	case errors.Is(err, errStored): // by another attempt, meanwhile
		v, _, err := ts.storedPreparation(ctx, in.TurnID)
		return v, err
	case errors.Is(err, errCancelled):
		return agent.PrepareVerdict{Cancelled: true}, nil
	case err != nil:
		return agent.PrepareVerdict{}, err
	}
	err = p.run(ctx)
	if closeErr := p.events.close(ctx); closeErr != nil && run.runtimeErr == nil {
		run.runtimeErr = closeErr
	}
	v := agent.PrepareVerdict{Branch: p.answer.Branch, Passages: len(p.answer.Passages), Usage: run.totalUsage(), Requests: run.tries}
	switch {
	case run.runtimeErr != nil:
		run.chargeAbandoned(ctx, agent.StepKey{TurnID: in.TurnID})
		return agent.PrepareVerdict{}, run.runtimeErr
	case errors.Is(err, errCancelled):
		v.Cancelled = true
	case errors.Is(err, errOutOfTime):
		v.OutOfTime = true
	case err != nil && ctx.Err() != nil:
		run.chargeAbandoned(ctx, agent.StepKey{TurnID: in.TurnID})
		return agent.PrepareVerdict{}, context.Cause(ctx)
	case err != nil:
		v.Failure = modelFailure(err)
		if v.RetryInMS, err = run.pause(ctx, err, v.Failure); err != nil {
			run.chargeAbandoned(ctx, agent.StepKey{TurnID: in.TurnID})
			return agent.PrepareVerdict{}, err
		}
	default:
		p.answer.Fence, p.answer.Calls, p.answer.Usage = p.events.fence, run.ledger, v.Usage
		return v, ts.Store.SavePrepared(ctx, p.answer)
	}
	return v, ts.Store.ChargeUsage(ctx, agent.StepKey{TurnID: in.TurnID}, run.turn.Tenant, run.ledger)
}

// storedPreparation returns the stored preparation of a turn; ok is false if there is none.
func (ts *Turns) storedPreparation(ctx context.Context, id agent.TurnID) (v agent.PrepareVerdict, ok bool, err error) {
	found, ok, err := ts.Store.Prepared(ctx, id)
	return agent.PrepareVerdict{Branch: found.Branch, Passages: len(found.Passages), Usage: found.Usage}, ok, err
}

// preparation is the work of one Retrieve.
type preparation struct {
	*modelRun

	inv     agent.Invocation
	events  *producer
	watched context.Context // of the events' epoch: it ends when the turn is cancelled
	answer  agent.Prepared
}

// run takes the steps in the plan's order. The BeforeModel hooks of the turn's middleware see the conversation once, before the first step.
func (p *preparation) run(ctx context.Context) error {
	ctx, free := p.limitTime(ctx)
	defer free()
	stop := p.stop
	defer context.AfterFunc(p.watched, func() { stop(context.Cause(p.watched)) })()
	p.inv = p.invocation()
	for _, m := range p.chain {
		if _, err := m.BeforeModel(ctx, p.inv, &p.request); err != nil {
			return p.hookError(err)
		}
	}
	p.answer.Query = clip.Bytes(strings.TrimSpace(question(p.request.Messages)), maxQuery)
	search := true
	var wanted []*agent.PlanStep
	for i := range p.plan.Prepare {
		s := &p.plan.Prepare[i]
		var err error
		switch s.Kind {
		case agent.PrepareClassify:
			search, err = p.classify(ctx, s)
		case agent.PrepareReformulate:
			if search {
				err = p.reformulate(ctx, s)
			}
		case agent.PrepareRetrieve:
			wanted = append(wanted, s)
		}
		if err != nil {
			return err
		}
	}
	if !search || len(wanted) == 0 || p.answer.Query == "" {
		return nil
	}
	return p.search(ctx, wanted)
}

// question returns the last text of the user.
func question(messages []agent.Message) string {
	for _, m := range slices.Backward(messages) {
		if text := agent.Normalize(m.Blocks); text != "" && m.Role == agent.RoleUser {
			return text
		}
	}
	return ""
}

// classify asks the model for the branch. An answer that names none means the first branch.
func (p *preparation) classify(ctx context.Context, s *agent.PlanStep) (search bool, err error) {
	if len(s.Branches) == 0 {
		return true, nil
	}
	done := p.step(s.Kind, map[string]string{"question": p.answer.Query})
	word, err := p.ask(ctx, s.Prompt)
	if err != nil {
		done(nil, err)
		return false, err
	}
	branch, at := &s.Branches[0], -1
	for i := range s.Branches {
		if found := strings.Index(strings.ToLower(word), s.Branches[i].Name); found >= 0 && (at < 0 || found < at) {
			branch, at = &s.Branches[i], found
		}
	}
	p.answer.Branch = branch.Name
	done(map[string]string{"branch": branch.Name}, nil)
	return branch.Retrieve, nil
}

// reformulate asks the model for the question as it would be asked without the conversation.
func (p *preparation) reformulate(ctx context.Context, s *agent.PlanStep) error {
	done := p.step(s.Kind, map[string]string{"question": p.answer.Query})
	words, err := p.ask(ctx, s.Prompt)
	if err != nil {
		done(nil, err)
		return err
	}
	if words = clip.Bytes(strings.TrimSpace(words), maxQuery); words != "" {
		p.answer.Query = words
	}
	done(map[string]string{"query": p.answer.Query}, nil)
	return nil
}

// ask makes one request for a short answer through the turn's middleware.
func (p *preparation) ask(ctx context.Context, prompt string) (string, error) {
	req, zero := p.request, 0.0
	req.System, req.Temperature, req.Cache = prompt, &zero, nil
	reply, err := p.callWrapped(ctx, p.inv, req)
	for i := range p.usages {
		_ = p.events.emit(p.watched, p.usages[i]) // as below
	}
	p.usages = nil
	return agent.Normalize(reply.Blocks), err
}

// search asks all collections in parallel and interleaves their passages, the best first. If one collection fails, the turn fails: an answer from
// half the knowledge would look complete.
func (p *preparation) search(ctx context.Context, steps []*agent.PlanStep) error {
	names := make([]string, len(steps))
	lists := make([][]agent.Passage, len(steps))
	failures := make([]error, len(steps))
	for i, s := range steps {
		names[i] = s.Collection
	}
	done := p.step(agent.PrepareRetrieve, map[string]any{"query": p.answer.Query, "collections": names})
	var wg sync.WaitGroup
	for i, s := range steps {
		wg.Go(func() {
			lists[i], failures[i] = p.ts.Knowledge.Search(ctx, agent.KnowledgeQuery{
				Tenant: s.Tenant, Collection: s.Collection, Text: p.answer.Query, TopK: s.TopK, MinScore: s.MinScore, Embedding: s.Embedding,
			})
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := errors.Join(failures...); err != nil {
		p.ts.log(ctx).Warn("search", zap.Error(err))
		done(nil, err)
		if agent.CodeOf(err).Retryable() {
			return p.noteRuntimeError(err)
		}
		return err
	}
	for rank, more := 0, true; more; rank++ {
		more = false
		for _, list := range lists {
			if rank < len(list) {
				p.answer.Passages, more = append(p.answer.Passages, list[rank]), true
			}
		}
	}
	if err := p.filter(ctx); err != nil {
		done(nil, err)
		return err
	}
	done(sources(p.answer.Passages), nil)
	return nil
}

// filter passes the passages through the middleware as the result of a tool, so that they are filtered as tool results are.
func (p *preparation) filter(ctx context.Context) error {
	found, err := json.Marshal(p.answer.Passages)
	if err != nil {
		return fmt.Errorf("encode passages: %w", err)
	}
	var call agent.ToolFunc = func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: found}, nil
	}
	for _, m := range slices.Backward(p.chain) {
		call = m.WrapTool(call)
	}
	args, err := json.Marshal(map[string]string{"query": p.answer.Query})
	if err != nil {
		return fmt.Errorf("encode query: %w", err)
	}
	result, err := call(ctx, p.inv, agent.ToolCall{ID: prepareProducer + "/" + agent.PrepareRetrieve, Name: agent.PrepareRetrieve, Args: args})
	switch {
	case err != nil:
		return err
	case result.Failure != nil:
		return result.Failure.AsError()
	}
	p.answer.Passages = nil
	if err := json.Unmarshal(result.Output, &p.answer.Passages); err != nil {
		return fmt.Errorf("read passages behind middleware: %w", err)
	}
	return nil
}

// source is a passage in an event: its origin without its text.
type source struct {
	Number     int     `json:"number"`
	DocumentID string  `json:"document_id"`
	Title      string  `json:"title,omitempty"`
	Source     string  `json:"source,omitempty"`
	Score      float64 `json:"score"`
}

func sources(passages []agent.Passage) map[string][]source {
	out := make([]source, 0, len(passages))
	for i := range passages {
		f := &passages[i]
		out = append(out, source{Number: i + 1, DocumentID: f.DocumentID, Title: f.Title, Source: f.Source, Score: f.Score})
	}
	return map[string][]source{"passages": out}
}

// step emits the start of a step of the preparation. The function that it returns emits the end.
func (p *preparation) step(kind string, input any) (done func(output any, err error)) {
	e := agent.Event{ToolCallID: agent.CallID(prepareProducer + "/" + kind), ToolName: kind, SourceNodeName: prepareProducer}
	start := e
	start.Type = agent.EventToolStart
	start.Input, _ = json.Marshal(input) // strings
	_ = p.events.emit(p.watched, start)  // the epoch's context says what an error would
	return func(output any, err error) {
		if e.Type = agent.EventToolEnd; err != nil {
			e.Failed, output = true, map[string]*agent.Failure{"error": modelFailure(err)}
		}
		e.Output, _ = json.Marshal(output) // as above
		_ = p.events.emit(p.watched, e)
	}
}
