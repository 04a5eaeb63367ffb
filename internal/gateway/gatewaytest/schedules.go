package gatewaytest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Schedules is a [gateway.Schedules] and [gateway.SchedulePlans] in memory. It is not safe for concurrent use.
type Schedules struct {
	Puts  []agent.Schedule  // the arguments of Put
	By    []agent.Principal // the principals of Put
	Calls []string          // the method and the arguments of each call
	Err   error             // if not nil, the error of every call

	stored []agent.Schedule
}

// logCall adds a call to Calls and returns Err.
func (k *Schedules) logCall(parts ...string) error {
	k.Calls = append(k.Calls, strings.Join(parts, " "))
	return k.Err
}

// find logs a call and returns its schedule.
func (k *Schedules) find(call, tenant, name string, more ...string) (*agent.Schedule, error) {
	if err := k.logCall(append([]string{call, tenant, name}, more...)...); err != nil {
		return &agent.Schedule{}, err
	}
	for i := range k.stored {
		if s := &k.stored[i]; s.Tenant == tenant && s.Name == name {
			return s, nil
		}
	}
	return &agent.Schedule{}, agent.Errorf(agent.CodeNotFound, "", "there is no schedule %q", name)
}

// Put implements [gateway.Schedules].
func (k *Schedules) Put(_ context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error) {
	k.Puts, k.By = append(k.Puts, s), append(k.By, p)
	verb := "put"
	if isNew {
		verb = "create"
	}
	existing, err := k.find(verb, s.Tenant, s.Name)
	switch {
	case k.Err != nil:
		return s, err
	case err == nil && isNew:
		return s, agent.Errorf(agent.CodeConflict, "name", "there is a schedule %q already", s.Name)
	}
	s.Revision, s.CreatedAt, s.UpdatedAt = existing.Revision+1, new(Epoch()), new(Epoch())
	if !s.Paused {
		s.Next = []time.Time{Epoch().Add(time.Hour)}
	}
	if err != nil {
		k.stored = append(k.stored, s)
	} else {
		*existing = s
	}
	return s, nil
}

// Get implements [gateway.Schedules].
func (k *Schedules) Get(_ context.Context, tenant, name string) (agent.Schedule, error) {
	s, err := k.find("get", tenant, name)
	return *s, err
}

// List implements [gateway.Schedules]. A page has one schedule.
func (k *Schedules) List(_ context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	err := k.logCall("list", tenant, p.Token)
	one, next, pageErr := pageOf(k.stored, agent.Page{Size: 1, Token: p.Token})
	if err == nil {
		err = pageErr
	}
	return agent.SchedulePage{Schedules: one, Next: next}, err
}

// Runs implements [gateway.Schedules]. One run has failed, and one is running.
func (k *Schedules) Runs(_ context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	_, err := k.find("runs", tenant, name, p.Token)
	at := Epoch()
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{
		{
			RunID: "r2", Tenant: tenant, Schedule: name, Kind: agent.ScheduleRuns, Workflow: "w2", TurnID: "turn-2", SessionID: "s2", Status: "failed",
			Error: &agent.Failure{Type: "denied", Message: "no\x1b[2J"}, ResultRef: "artifact://r2", StartedAt: at, EndedAt: &at,
			Notices: []agent.ScheduleNotice{
				{Kind: "webhook", Target: "example.com", Status: agent.NoticeSent, Attempts: 1, At: at},
				{Kind: "email", Target: "ops", Status: agent.NoticeFailed, Attempts: 3, At: at, Error: &agent.Failure{Type: "unavailable"}},
			},
		},
		{RunID: "r1", Tenant: tenant, Schedule: name, Kind: agent.ScheduleRuns, Status: agent.ScheduleRunning, StartedAt: at, Output: "all is well"},
	}}, err
}

// Delete implements [gateway.Schedules].
func (k *Schedules) Delete(_ context.Context, tenant, name string) error {
	_, err := k.find("delete", tenant, name)
	k.stored = slices.DeleteFunc(k.stored, func(s agent.Schedule) bool { return s.Tenant == tenant && s.Name == name })
	return err
}

// Pause implements [gateway.Schedules].
func (k *Schedules) Pause(_ context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error) {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	s, err := k.find(verb, tenant, name, note)
	s.Paused, s.Note = paused, note
	return *s, err
}

// Trigger implements [gateway.Schedules].
func (k *Schedules) Trigger(_ context.Context, tenant, name, key string) (agent.ScheduleTriggered, error) {
	_, err := k.find("trigger", tenant, name, key)
	return agent.ScheduleTriggered{WorkflowID: "w3", RunID: "r3"}, err
}

// Resolve implements [gateway.SchedulePlans]. The agent analyst is the default and has two models.
func (k *Schedules) Resolve(_ context.Context, _, name string) (agent.Plan, string, error) {
	if name != "" && name != "analyst" {
		return agent.Plan{}, "", agent.Errorf(agent.CodeNotFound, "", "none")
	}
	return agent.Plan{Models: []agent.PlanModel{{Profile: "small"}, {Profile: "large"}}}, "hash", nil
}
