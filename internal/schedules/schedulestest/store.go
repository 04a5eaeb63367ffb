// Package schedulestest has fakes of the ports of scheduled runs, in memory: a store, an inbox whose turns a test ends, and receivers of notices.
package schedulestest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store is a schedules.Store of one schedule and its runs.
type Store struct {
	mu       sync.Mutex
	schedule *agent.StoredSchedule
	runs     map[string]*agent.ScheduleRun
	turns    map[agent.TurnID]agent.TurnState
	last     string   // digest and status of the newest end
	broken   []error  // of the next calls of FinishScheduleRun
	retired  []string // sessions
}

// NewStore returns a store with a schedule.
func NewStore(s agent.StoredSchedule) *Store {
	return &Store{schedule: &s, runs: map[string]*agent.ScheduleRun{}, turns: map[agent.TurnID]agent.TurnState{}}
}

// Put changes the schedule; nil deletes it.
func (s *Store) Put(schedule *agent.StoredSchedule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule = schedule
}

// Break makes the next calls of FinishScheduleRun fail.
func (s *Store) Break(errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, errs...)
}

// Runs returns the runs by id.
func (s *Store) Runs() map[string]agent.ScheduleRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]agent.ScheduleRun{}
	for id, r := range s.runs {
		out[id] = *r
	}
	return out
}

// Retired returns the sessions that were marked inactive.
func (s *Store) Retired() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.retired)
}

// End gives a turn its result.
func (s *Store) End(out agent.AgentStepOutput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[out.TurnID] = agent.TurnState{State: string(out.Status), Output: &out}
}

func gone(field string) error { return agent.FieldErrorf(agent.CodeNotFound, field, "gone") }

// Schedule implements schedules.Store.
func (s *Store) Schedule(_ context.Context, tenant, name string) (agent.StoredSchedule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schedule == nil || s.schedule.Tenant != tenant || s.schedule.Name != name {
		return agent.StoredSchedule{}, gone("name")
	}
	return *s.schedule, nil
}

// BeginScheduleRun implements schedules.Store.
func (s *Store) BeginScheduleRun(ctx context.Context, tenant, name, runID, workflowID string) (agent.StoredSchedule, agent.ScheduleRun, error) {
	schedule, err := s.Schedule(ctx, tenant, name)
	if err != nil {
		return schedule, agent.ScheduleRun{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[runID] == nil {
		s.runs[runID] = &agent.ScheduleRun{
			RunID: runID, Tenant: tenant, Schedule: name, Kind: schedule.Kind, Workflow: workflowID, Status: agent.ScheduleRunning,
			StartedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		}
	}
	return schedule, *s.runs[runID], nil
}

// BindScheduleRun implements schedules.Store.
func (s *Store) BindScheduleRun(_ context.Context, _, runID string, turn agent.TurnID, session agent.SessionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[runID]; r != nil {
		r.TurnID, r.SessionID = turn, session
	}
	return nil
}

// FinishScheduleRun implements schedules.Store.
func (s *Store) FinishScheduleRun(_ context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.broken) > 0 {
		err := s.broken[0]
		s.broken = s.broken[1:]
		return nil, err
	}
	r := s.runs[e.RunID]
	if r == nil {
		return nil, nil
	}
	if r.EndedAt == nil {
		r.Status, r.Output, r.ResultRef, r.Error, r.Quiet, r.EndedAt = e.Status, e.Output, e.ResultRef, e.Error, e.Quiet, &e.EndedAt
		r.Notices = slices.Clone(e.Notices)
		if now := e.Status + e.Digest; now != s.last {
			r.Notices = append(r.Notices, e.IfChanged...)
			s.last = now
		}
		for i := range r.Notices {
			r.Notices[i].Status = agent.NoticePending
		}
		s.retired = append(s.retired, string(r.SessionID))
	}
	var left []agent.ScheduleNotice
	for _, n := range r.Notices {
		if n.Status != agent.NoticeSent {
			left = append(left, n)
		}
	}
	return left, nil
}

// NoteNotice implements schedules.Store.
func (s *Store) NoteNotice(_ context.Context, _, runID string, n agent.ScheduleNotice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		return nil
	}
	r.Notices = slices.Clone(r.Notices)
	for i := range r.Notices {
		if r.Notices[i].Position == n.Position {
			r.Notices[i].Status, r.Notices[i].Attempts, r.Notices[i].Error = n.Status, n.Attempts, n.Error
		}
	}
	return nil
}

// ScheduleRun implements schedules.Store.
func (s *Store) ScheduleRun(_ context.Context, tenant, runID string) (agent.ScheduleRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[runID]; r != nil && r.Tenant == tenant {
		return *r, nil
	}
	return agent.ScheduleRun{}, gone("run_id")
}

// Turn implements schedules.Store.
func (s *Store) Turn(_ context.Context, id agent.TurnID) (agent.TurnState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.turns[id]
	if !ok {
		return t, gone("turn_id")
	}
	return t, nil
}
