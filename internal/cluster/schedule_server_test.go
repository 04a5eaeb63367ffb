package cluster

import (
	"context"
	"maps"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// scheduleServer is a [client.ScheduleClient] in memory. It keeps schedules and never runs one. It is for one goroutine at a time.
type scheduleServer struct {
	client.ScheduleClient

	All      map[string]*client.Schedule
	Changes  []string            // "create id", "update id", "delete id"
	Broken   map[string]error    // by id: the error of describing or deleting a schedule
	Types    map[string]string   // by id: the workflow that a schedule starts, if it is not Workflow
	Workflow string              // the workflow that schedules start, in lists
	Race     bool                // another process creates every schedule first
	Away     error               // the error of listing
	Info     client.ScheduleInfo // of every schedule

	Triggered client.ScheduleTriggerOptions // of the last trigger

	Refuses   error  // the error of creating and updating
	RefusesID string // only for this id, if not empty
}

// newScheduleServer returns a server without schedules. Its lists say that schedules start workflows of a type.
func newScheduleServer(workflow string) *scheduleServer {
	return &scheduleServer{All: map[string]*client.Schedule{}, Broken: map[string]error{}, Types: map[string]string{}, Workflow: workflow}
}

// storedSchedule returns a schedule as the server does: with an encoded memo.
func storedSchedule(s client.Schedule) *client.Schedule {
	if action, ok := s.Action.(*client.ScheduleWorkflowAction); ok {
		encoded := *action
		encoded.Memo = map[string]any{}
		for name, v := range action.Memo {
			p, err := converter.GetDefaultDataConverter().ToPayload(v)
			if err == nil {
				encoded.Memo[name] = p
			}
		}
		s.Action = &encoded
	}
	return &s
}

// Create implements [client.ScheduleClient].
func (s *scheduleServer) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	if s.Refuses != nil && (s.RefusesID == "" || s.RefusesID == o.ID) {
		return nil, s.Refuses
	}
	if s.All[o.ID] != nil || s.Race {
		if s.Race {
			s.All[o.ID] = &client.Schedule{Action: &client.ScheduleWorkflowAction{}}
		}
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	s.Changes = append(s.Changes, "create "+o.ID)
	s.All[o.ID] = storedSchedule(client.Schedule{
		Action: o.Action, Spec: &o.Spec, State: &client.ScheduleState{Paused: o.Paused, Note: o.Note},
		Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow, PauseOnFailure: o.PauseOnFailure},
	})
	return nil, nil //nolint:nilnil // nobody wants it
}

// MadeFrom returns the hash in the memo of a schedule.
func (s *scheduleServer) MadeFrom(id string) (hash string) {
	if action, ok := s.All[id].Action.(*client.ScheduleWorkflowAction); ok {
		if p, ok := action.Memo["turnstone_schedule"].(*commonpb.Payload); ok {
			_ = converter.GetDefaultDataConverter().FromPayload(p, &hash) // then it is empty
		}
	}
	return hash
}

// GetHandle implements [client.ScheduleClient].
func (s *scheduleServer) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return &handle{server: s, id: id}
}

// List implements [client.ScheduleClient].
func (s *scheduleServer) List(context.Context, client.ScheduleListOptions) (client.ScheduleListIterator, error) {
	if s.Away != nil {
		return nil, s.Away
	}
	var out entries
	for _, id := range slices.Sorted(maps.Keys(s.All)) {
		entry := &client.ScheduleListEntry{ID: id}
		entry.WorkflowType.Name = s.Workflow
		if name := s.Types[id]; name != "" {
			entry.WorkflowType.Name = name
		}
		out = append(out, entry)
	}
	return &out, nil
}

type handle struct {
	client.ScheduleHandle

	server *scheduleServer
	id     string
}

func (h *handle) find() (*client.Schedule, error) {
	if err := h.server.Broken[h.id]; err != nil {
		return nil, err
	}
	if found := h.server.All[h.id]; found != nil {
		return found, nil
	}
	return nil, serviceerror.NewNotFound("no schedule")
}

// Describe implements [client.ScheduleHandle].
func (h *handle) Describe(context.Context) (*client.ScheduleDescription, error) {
	found, err := h.find()
	if err != nil {
		return nil, err
	}
	return &client.ScheduleDescription{Schedule: *found, Info: h.server.Info}, nil
}

// Update implements [client.ScheduleHandle].
func (h *handle) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
	if h.server.Refuses != nil {
		return h.server.Refuses
	}
	next, err := o.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: *h.server.All[h.id]}})
	if err != nil {
		return err
	}
	h.server.Changes = append(h.server.Changes, "update "+h.id)
	h.server.All[h.id] = storedSchedule(*next.Schedule)
	return nil
}

// Delete implements [client.ScheduleHandle].
func (h *handle) Delete(context.Context) error {
	if _, err := h.find(); err != nil {
		return err
	}
	h.server.Changes = append(h.server.Changes, "delete "+h.id)
	delete(h.server.All, h.id)
	return nil
}

// Pause implements [client.ScheduleHandle].
func (h *handle) Pause(_ context.Context, o client.SchedulePauseOptions) error {
	return h.setState(true, o.Note)
}

// Unpause implements [client.ScheduleHandle].
func (h *handle) Unpause(_ context.Context, o client.ScheduleUnpauseOptions) error {
	return h.setState(false, o.Note)
}

func (h *handle) setState(paused bool, note string) error {
	found, err := h.find()
	if err == nil {
		found.State = &client.ScheduleState{Paused: paused, Note: note}
	}
	return err
}

// Trigger implements [client.ScheduleHandle].
func (h *handle) Trigger(_ context.Context, o client.ScheduleTriggerOptions) error {
	h.server.Triggered = o
	_, err := h.find()
	return err
}

type entries []*client.ScheduleListEntry

// HasNext implements [client.ScheduleListIterator].
func (e *entries) HasNext() bool { return len(*e) > 0 }

// Next implements [client.ScheduleListIterator].
func (e *entries) Next() (*client.ScheduleListEntry, error) {
	first := (*e)[0]
	*e = (*e)[1:]
	return first, nil
}
