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
	maxQueryBytes   = 1_000
)

// Retrieve prepares a turn. As its plan says, it classifies the message, rewrites it as a question that can be understood without the conversation, and
// searches for passages. It emits events for each step. If the preparation is already stored, Retrieve returns that one.
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
	run.isQuiet = true
	p := preparation{modelRun: run, answer: agent.Prepared{TurnID: run.turn.TurnID, Tenant: run.turn.Tenant, Passages: []agent.Passage{}}}
	isStored := func(ctx context.Context) (bool, error) {
		_, ok, err := ts.storedPreparation(ctx, in.TurnID)
		return ok, err
	}
	p.events, p.watched, err = ts.startProducer(ctx, run.turn.TurnRef, prepareProducer, isStored)
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
	key := agent.StepKey{TurnID: in.TurnID}
	v, err := p.verdict(ctx, err)
	switch {
	case err != nil:
		run.chargeAbandoned(ctx, key)
		return agent.PrepareVerdict{}, err
	case v.Cancelled, v.OutOfTime, v.Failure != nil:
		return v, ts.Store.ChargeUsage(ctx, key, run.turn.Tenant, run.ledger)
	}
	p.answer.Fence, p.answer.Calls, p.answer.Usage = p.events.fence, run.ledger, v.Usage
	return v, ts.Store.SavePrepared(ctx, p.answer)
}

// storedPreparation returns the stored preparation of a turn; ok is false if there is none.
func (ts *Turns) storedPreparation(ctx context.Context, id agent.TurnID) (v agent.PrepareVerdict, ok bool, err error) {
	found, ok, err := ts.Store.Prepared(ctx, id)
	return agent.PrepareVerdict{Branch: found.Branch, Passages: len(found.Passages), Usage: found.Usage}, ok, err
}

// preparation is the state of one call of Retrieve.
type preparation struct {
	*modelRun

	inv     agent.Invocation
	events  *producer
	watched context.Context // the context of the producer, which ends when the turn is cancelled
	answer  agent.Prepared
}

// run takes the steps in the order of the plan. The BeforeModel hooks of the middleware run once, before the first step.
func (p *preparation) run(ctx context.Context) error {
	ctx, cancel := p.limitTime(ctx)
	defer cancel()
	stop := p.stop
	defer context.AfterFunc(p.watched, func() { stop(context.Cause(p.watched)) })()
	p.inv = p.invocation()
	for _, m := range p.chain {
		if _, err := m.BeforeModel(ctx, p.inv, &p.request); err != nil {
			return p.hookError(err)
		}
	}
	p.answer.Query = clip.Bytes(strings.TrimSpace(lastUserText(p.request.Messages)), maxQueryBytes)
	mustSearch := true
	var searches []*agent.PlanStep
	for i := range p.plan.Prepare {
		s := &p.plan.Prepare[i]
		var err error
		switch s.Kind {
		case agent.PrepareClassify:
			mustSearch, err = p.classify(ctx, s)
		case agent.PrepareReformulate:
			if mustSearch {
				err = p.reformulate(ctx, s)
			}
		case agent.PrepareRetrieve:
			searches = append(searches, s)
		}
		if err != nil {
			return err
		}
	}
	if !mustSearch || len(searches) == 0 || p.answer.Query == "" {
		return nil
	}
	return p.search(ctx, searches)
}

// verdict returns the verdict on a preparation that has ended with err, or an error if the preparation has to be repeated at once.
func (p *preparation) verdict(ctx context.Context, err error) (agent.PrepareVerdict, error) {
	v := agent.PrepareVerdict{Branch: p.answer.Branch, Passages: len(p.answer.Passages), Usage: p.totalUsage(), Requests: p.tries}
	switch {
	case p.runtimeErr != nil:
		return v, p.runtimeErr
	case errors.Is(err, errCancelled):
		v.Cancelled = true
	case errors.Is(err, errOutOfTime):
		v.OutOfTime = true
	case err != nil && ctx.Err() != nil:
		return v, context.Cause(ctx)
	case err != nil:
		v.Failure = modelFailure(err)
		v.RetryInMS, err = p.pause(ctx, err, v.Failure)
		return v, err
	}
	return v, nil
}

// lastUserText returns the text of the user's last message that has one.
func lastUserText(messages []agent.Message) string {
	for _, m := range slices.Backward(messages) {
		if text := agent.Normalize(m.Blocks); text != "" && m.Role == agent.RoleUser {
			return text
		}
	}
	return ""
}

// classify asks the model for the branch of the message, and reports whether that branch needs a search. It takes the first branch if the answer names
// none.
func (p *preparation) classify(ctx context.Context, s *agent.PlanStep) (mustSearch bool, err error) {
	if len(s.Branches) == 0 {
		return true, nil
	}
	done := p.step(s.Kind, map[string]string{"question": p.answer.Query})
	answer, err := p.askShortAnswer(ctx, s.Prompt)
	if err != nil {
		done(nil, err)
		return false, err
	}
	branch, first := &s.Branches[0], -1 // the branch that the answer names first
	for i := range s.Branches {
		if offset := strings.Index(strings.ToLower(answer), s.Branches[i].Name); offset >= 0 && (first < 0 || offset < first) {
			branch, first = &s.Branches[i], offset
		}
	}
	p.answer.Branch = branch.Name
	done(map[string]string{"branch": branch.Name}, nil)
	return branch.Retrieve, nil
}

// reformulate asks the model for a question that can be understood without the conversation.
func (p *preparation) reformulate(ctx context.Context, s *agent.PlanStep) error {
	done := p.step(s.Kind, map[string]string{"question": p.answer.Query})
	query, err := p.askShortAnswer(ctx, s.Prompt)
	if err != nil {
		done(nil, err)
		return err
	}
	if query = clip.Bytes(strings.TrimSpace(query), maxQueryBytes); query != "" {
		p.answer.Query = query
	}
	done(map[string]string{"query": p.answer.Query}, nil)
	return nil
}

// askShortAnswer asks the model the last question with another system prompt, through the turn's middleware.
func (p *preparation) askShortAnswer(ctx context.Context, prompt string) (string, error) {
	req := p.request
	req.System, req.Temperature, req.Cache = prompt, new(0.0), nil
	reply, err := p.callWrapped(ctx, p.inv, req)
	_ = p.events.emit(p.watched, p.usages...) // an error also ends p.watched
	p.usages = nil
	return agent.Normalize(reply.Blocks), err
}

// search searches all collections in parallel and interleaves their passages, best first. If one collection fails, the turn fails, because an answer
// from the others would look complete.
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
	for rank, hasMore := 0, true; hasMore; rank++ {
		hasMore = false
		for _, list := range lists {
			if rank < len(list) {
				p.answer.Passages, hasMore = append(p.answer.Passages, list[rank]), true
			}
		}
	}
	if err := p.filterPassages(ctx); err != nil {
		done(nil, err)
		return err
	}
	done(sources(p.answer.Passages), nil)
	return nil
}

// filterPassages passes the passages through the middleware as the result of a tool, so that they are filtered like tool results.
func (p *preparation) filterPassages(ctx context.Context) error {
	passages, err := json.Marshal(p.answer.Passages)
	if err != nil {
		return fmt.Errorf("encode passages: %w", err)
	}
	var call agent.ToolFunc = func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: passages}, nil
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

// source is a passage in an event, without its text.
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

// step emits the event for the start of a step. The caller must call done, which emits the event for its end.
func (p *preparation) step(kind string, input any) (done func(output any, err error)) {
	e := agent.Event{ToolCallID: agent.CallID(prepareProducer + "/" + kind), ToolName: kind, SourceNodeName: prepareProducer}
	start := e
	start.Type = agent.EventToolStart
	start.Input, _ = json.Marshal(input) // input has only strings
	_ = p.events.emit(p.watched, start)  // an error also ends p.watched
	return func(output any, err error) {
		if e.Type = agent.EventToolEnd; err != nil {
			e.Failed, output = true, map[string]*agent.Failure{"error": modelFailure(err)}
		}
		e.Output, _ = json.Marshal(output) // so has output
		_ = p.events.emit(p.watched, e)
	}
}
