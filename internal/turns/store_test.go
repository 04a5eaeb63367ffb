package turns_test

import (
	"context"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// spyStore is a store that records its calls and returns the datasets of a test.
type spyStore struct {
	*postgres.Store

	mu       sync.Mutex
	datasets map[agent.SessionID][]agent.SessionDataset // returned by Datasets; other sessions use the store
	tools    map[agent.StepKey]agent.ToolStep           // saved by SaveToolStep
	calls    struct{ datasets, turns, begins int }
	before   []agent.TurnID // arguments of Datasets
	asides   []string       // arguments of Prompt
	finished []agent.FinishRecord
	err      error // returned by the next call of Datasets
}

func (s *spyStore) Datasets(ctx context.Context, tenant string, id agent.SessionID, before agent.TurnID, n int) ([]agent.SessionDataset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.datasets++
	s.before = append(s.before, before)
	err := s.err
	s.err = nil
	found, ok := s.datasets[id]
	if !ok && err == nil {
		return s.Store.Datasets(ctx, tenant, id, before, n)
	}
	return found[:min(n, len(found))], err
}

func (s *spyStore) Prompt(ctx context.Context, q agent.PromptQuery) ([]agent.Message, *agent.ModelStep, error) {
	s.mu.Lock()
	s.asides = append(s.asides, q.Aside)
	s.mu.Unlock()
	return s.Store.Prompt(ctx, q)
}

func (s *spyStore) Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	s.mu.Lock()
	s.calls.turns++
	s.mu.Unlock()
	return s.Store.Turn(ctx, id)
}

func (s *spyStore) Begin(ctx context.Context, t agent.TurnRecord) (agent.Begun, error) {
	s.mu.Lock()
	s.calls.begins++
	s.mu.Unlock()
	return s.Store.Begin(ctx, t)
}

func (s *spyStore) SaveToolStep(ctx context.Context, t agent.ToolStep) error {
	s.mu.Lock()
	s.tools[t.Key] = t
	s.mu.Unlock()
	return s.Store.SaveToolStep(ctx, t)
}

func (s *spyStore) Finish(ctx context.Context, f agent.FinishRecord) (agent.Finished, error) {
	s.mu.Lock()
	s.finished = append(s.finished, f)
	s.mu.Unlock()
	return s.Store.Finish(ctx, f)
}
