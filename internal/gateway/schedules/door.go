// Package schedules is the door to agents that run by the clock: /v1/schedules.
package schedules

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Schedules keeps schedules. What the tenant does not have is [agent.CodeNotFound].
type Schedules interface {
	// Put stores a schedule that runs with the rights of p. With isNew one that is there is [agent.CodeConflict].
	Put(ctx context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error)
	Get(ctx context.Context, tenant, name string) (agent.Schedule, error)
	List(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error)
	Runs(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error)
	Delete(ctx context.Context, tenant, name string) error
	Pause(ctx context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error)
	// Trigger begins a run now; the same key is the same run.
	Trigger(ctx context.Context, tenant, name, key string) (agent.ScheduleTriggered, error)
}

// Agents finds an agent's plan. [agent.CodeNotFound] when there is no such agent.
type Agents interface {
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
}

// Door serves schedules. It implements [gateway.Door].
type Door struct {
	schedules Schedules
	agents    Agents
}

// New returns the door.
func New(k Schedules, a Agents) (*Door, error) {
	switch {
	case k == nil:
		return nil, errors.New("schedules: the store is missing")
	case a == nil:
		return nil, errors.New("schedules: the agents are missing")
	}
	return &Door{schedules: k, agents: a}, nil
}

// The paths.
const (
	pathAll = "/v1/schedules"
	pathOne = pathAll + "/{name}"
)

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	read, write := agent.ActionSchedulesRead, agent.ActionSchedulesWrite
	return []gateway.Route{
		{Method: http.MethodGet, Path: pathAll, Action: read, Handle: d.list},
		{Method: http.MethodPost, Path: pathAll, Action: write, Handle: d.create},
		{Method: http.MethodGet, Path: pathOne, Action: read, Handle: d.get},
		{Method: http.MethodPut, Path: pathOne, Action: write, Handle: d.put},
		{Method: http.MethodDelete, Path: pathOne, Action: write, Handle: d.remove},
		{Method: http.MethodPost, Path: pathOne + "/pause", Action: write, Handle: d.pause},
		{Method: http.MethodPost, Path: pathOne + "/resume", Action: write, Handle: d.resume},
		{Method: http.MethodPost, Path: pathOne + "/trigger", Action: write, Handle: d.trigger},
		{Method: http.MethodGet, Path: pathOne + "/runs", Action: read, Handle: d.runs},
	}
}

// listBody is the body of GET /v1/schedules.
type listBody struct {
	Schedules []agent.Schedule `json:"schedules"`
	Next      string           `json:"next_page_token"`
}

// runsBody is the body of GET /v1/schedules/{name}/runs.
type runsBody struct {
	Runs []agent.ScheduleRun `json:"runs"`
	Next string              `json:"next_page_token"`
}

// noteBody is the body of pause and resume; it may be left out.
type noteBody struct {
	Note string `json:"note,omitempty"`
}

func (d *Door) list(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	found, err := d.schedules.List(ctx, v.Tenant(), page)
	if err != nil {
		return err
	}
	body := listBody{Schedules: found.Schedules, Next: found.Next}
	if body.Schedules == nil {
		body.Schedules = []agent.Schedule{}
	}
	v.WriteJSON(w, http.StatusOK, body)
	return nil
}

func (d *Door) create(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if err := noQuery(r); err != nil {
		return err
	}
	var s agent.Schedule
	if err := v.DecodeBody(w, r, &s); err != nil {
		return err
	}
	kept, err := d.store(r, v, &s, true)
	if err != nil {
		return err
	}
	w.Header().Set("Location", pathAll+"/"+kept.Name)
	v.WriteJSON(w, http.StatusCreated, kept)
	return nil
}

func (d *Door) put(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var s agent.Schedule
	if err := v.DecodeBody(w, r, &s); err != nil {
		return err
	}
	if s.Name != "" && s.Name != name {
		return agent.Invalid("name", "is %.140q, but the path says %.140q", s.Name, name)
	}
	s.Name = name
	kept, err := d.store(r, v, &s, false)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, kept)
	return nil
}

// store checks a schedule as its runs would be, and keeps it.
func (d *Door) store(r *http.Request, v *gateway.Visit, s *agent.Schedule, isNew bool) (agent.Schedule, error) {
	if err := sign(r, v, s); err != nil {
		return agent.Schedule{}, err
	}
	if err := s.Validate(); err != nil {
		return agent.Schedule{}, err
	}
	if s.Name == "." || s.Name == ".." {
		return agent.Schedule{}, agent.Invalid("name", "%q is a step in a path: nobody could ask for the schedule again", s.Name)
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	if err := d.checkAgent(ctx, v, s); err != nil {
		return agent.Schedule{}, err
	}
	return d.schedules.Put(ctx, *s, v.Principal(), isNew)
}

func (d *Door) get(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	s, err := d.schedules.Get(ctx, v.Tenant(), name)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, s)
	return nil
}

func (d *Door) remove(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	if err := d.schedules.Delete(ctx, v.Tenant(), name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Door) pause(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	return d.setPaused(w, r, v, true)
}

func (d *Door) resume(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	return d.setPaused(w, r, v, false)
}

func (d *Door) setPaused(w http.ResponseWriter, r *http.Request, v *gateway.Visit, paused bool) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	var body noteBody
	if err := optional(w, r, v, &body); err != nil {
		return err
	}
	if len(body.Note) > maxNote || strings.ContainsRune(body.Note, 0) {
		return agent.Invalid("note", "want at most %d bytes", maxNote)
	}
	if body.Note == "" {
		body.Note = noteOf(v, paused)
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	s, err := d.schedules.Pause(ctx, v.Tenant(), name, paused, body.Note)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, s)
	return nil
}

func (d *Door) trigger(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if err := optional(w, r, v, &struct{}{}); err != nil {
		return err
	}
	key := r.Header.Get(headerKey)
	if len(key) > maxKey {
		return agent.Invalid(headerKey, "is %d bytes, at most %d", len(key), maxKey)
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	run, err := d.schedules.Trigger(ctx, v.Tenant(), name, key)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusAccepted, run)
	return nil
}

func (d *Door) runs(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	name, err := named(r)
	if err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	found, err := d.schedules.Runs(ctx, v.Tenant(), name, page)
	if err != nil {
		return err
	}
	body := runsBody{Runs: found.Runs, Next: found.Next}
	if body.Runs == nil {
		body.Runs = []agent.ScheduleRun{}
	}
	v.WriteJSON(w, http.StatusOK, body)
	return nil
}
