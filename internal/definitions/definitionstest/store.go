// Package definitionstest has fakes of the ports of workflow definitions, and a test suite for implementations of [library.Store].
package definitionstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store is a [definitions.Store] in memory.
type Store struct {
	LibraryStore

	runsMu   sync.Mutex
	runs     map[string]*agent.Run
	attempts map[string]bool

	// Broken, if set, is called with the name of every method. The method returns its error.
	Broken func(call string) error
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{runs: map[string]*agent.Run{}, attempts: map[string]bool{}}
}

// Put stores the next version of a definition.
func (s *Store) Put(key agent.WorkflowKey, d agent.WorkflowDefinition) (agent.StoredWorkflow, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return agent.StoredWorkflow{}, err
	}
	version, _, _ := s.NewestVersion(context.Background(), key)
	w := agent.StoredWorkflow{WorkflowKey: key, Version: version + 1, Definition: raw, UpdatedAt: time.Now()}
	return s.CommitWorkflow(context.Background(), agent.WorkflowCommit{Stored: w, Base: version})
}

// broken returns the error of Broken for a method.
func (s *Store) broken(call string) error {
	if s.Broken == nil {
		return nil
	}
	return s.Broken(call)
}

// Workflow implements [definitions.Store].
func (s *Store) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	if err := s.broken("Workflow"); err != nil {
		return agent.StoredWorkflow{}, err
	}
	return s.LibraryStore.Workflow(ctx, key, version)
}

// BeginRun implements [definitions.Store].
func (s *Store) BeginRun(_ context.Context, r agent.Run) (agent.Run, error) {
	if err := s.broken("BeginRun"); err != nil {
		return agent.Run{}, err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	if existing := s.runs[r.RunID]; existing != nil {
		return *existing, nil
	}
	s.runs[r.RunID] = &r
	return r, nil
}

// Run implements [definitions.Store].
func (s *Store) Run(_ context.Context, tenant, runID string) (agent.Run, error) {
	if err := s.broken("Run"); err != nil {
		return agent.Run{}, err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	r := s.runs[runID]
	if r == nil || (tenant != "" && r.Tenant != tenant) {
		return agent.Run{}, agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", runID)
	}
	out := *r
	out.Steps = slices.Clone(r.Steps)
	return out, nil
}

// SaveStep implements [definitions.Store].
func (s *Store) SaveStep(ctx context.Context, _, runID string, step agent.RunStep) (agent.RunStep, error) {
	if err := s.broken("SaveStep"); err != nil {
		return agent.RunStep{}, err
	}
	if err := ctx.Err(); err != nil {
		return agent.RunStep{}, err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	r := s.runs[runID]
	if r == nil {
		return agent.RunStep{}, agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", runID)
	}
	for _, existing := range r.Steps {
		if existing.NodeID == step.NodeID && existing.Visit == step.Visit {
			return existing, nil
		}
	}
	r.Steps = append(r.Steps, step)
	return step, nil
}

// Step implements [definitions.Store].
func (s *Store) Step(_ context.Context, runID, nodeID string, visit int) (agent.RunStep, bool, error) {
	if err := s.broken("Step"); err != nil {
		return agent.RunStep{}, false, err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	if r := s.runs[runID]; r != nil {
		for _, existing := range r.Steps {
			if existing.NodeID == nodeID && existing.Visit == visit {
				return existing, true, nil
			}
		}
	}
	return agent.RunStep{}, false, nil
}

// Attempt implements [definitions.Store].
func (s *Store) Attempt(_ context.Context, runID, nodeID string, visit int) (bool, error) {
	if err := s.broken("Attempt"); err != nil {
		return false, err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	key := fmt.Sprintf("%s\x00%s\x00%d", runID, nodeID, visit)
	before := s.attempts[key]
	s.attempts[key] = true
	return before, nil
}

// FinishRun implements [definitions.Store].
func (s *Store) FinishRun(_ context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error {
	if err := s.broken("FinishRun"); err != nil {
		return err
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	r := s.runs[runID]
	if r == nil || r.Tenant != tenant {
		return agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", runID)
	}
	if r.Status == agent.RunRunning {
		r.Status, r.Error, r.FinishedAt = status, failure, &at
	}
	return nil
}

// Runs returns all runs that match a query.
func (s *Store) Runs(_ context.Context, q agent.RunQuery) (agent.RunPage, error) {
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	var page agent.RunPage
	for _, r := range s.runs {
		if r.Tenant == q.Tenant && (q.Tag == "" || r.Tag == q.Tag) && (q.Status == "" || r.Status == q.Status) {
			page.Runs = append(page.Runs, *r)
		}
	}
	return page, nil
}
