package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Schedules is the port of the schedules of agents. A schedule that the tenant does not have is [agent.CodeNotFound].
type Schedules interface {
	// Put stores a schedule whose runs have the permissions of p. Its error is [agent.CodeConflict] if isNew and the schedule exists.
	Put(ctx context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error)
	Get(ctx context.Context, tenant, name string) (agent.Schedule, error)
	List(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error)
	Runs(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error)
	Delete(ctx context.Context, tenant, name string) error
	Pause(ctx context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error)
	// Trigger starts a run now. Requests with the same key start one run.
	Trigger(ctx context.Context, tenant, name, key string) (agent.ScheduleTriggered, error)
}

// SchedulePlans is the port of the plans of scheduled agents. An unknown agent is [agent.CodeNotFound].
type SchedulePlans interface {
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
}

// Bounds of requests about schedules.
const (
	maxTriggerKey    = 256  // bytes
	maxNote          = 1000 // bytes
	maxStorePage     = 1000 // that a request may ask for
	defaultStorePage = 100
	servedStorePage  = 200 // the maximum size of a page, even if the request asks for more
)

const pathSchedules = "/v1/schedules"

func (s *httpServer) routeSchedules() {
	const one = pathSchedules + "/{name}"
	read := func(handle func(*Call) (any, error)) endpoint {
		return requires(s.answer(tenantHeaderFirst, handle), agent.ActionSchedulesRead)
	}
	write := func(handle func(*Call) (any, error)) endpoint {
		return requires(s.answerWithoutQuery(tenantHeaderFirst, handle), agent.ActionSchedulesWrite)
	}
	s.route(pathSchedules, methods{http.MethodGet: read(s.getSchedules), http.MethodPost: write(s.postSchedule)})
	s.route(one, methods{http.MethodGet: read(s.getSchedule), http.MethodPut: write(s.putSchedule), http.MethodDelete: write(s.deleteSchedule)})
	s.route(one+"/pause", methods{http.MethodPost: write(func(c *Call) (any, error) { return s.setSchedulePaused(c, true) })})
	s.route(one+"/resume", methods{http.MethodPost: write(func(c *Call) (any, error) { return s.setSchedulePaused(c, false) })})
	s.route(one+"/trigger", methods{http.MethodPost: write(s.triggerSchedule)})
	s.route(one+"/runs", methods{http.MethodGet: read(s.getScheduleRuns)})
}

// storePage returns the page of a list of schedules, runs of schedules or erasures.
func (c *Call) storePage() (agent.Page, error) {
	page := c.query.pageWithin(defaultStorePage, maxStorePage)
	page.Size = min(page.Size, servedStorePage)
	return page, c.query.validate()
}

// scheduleName returns the name of the schedule in the path.
func (c *Call) scheduleName() (string, error) {
	name := c.r.PathValue("name")
	if !agent.ValidName(name) || len(name) > agent.MaxScheduleName {
		return "", agent.FieldErrorf(agent.CodeNotFound, "name", "there is no schedule %.140q", name)
	}
	return name, nil
}

// getSchedules is GET /v1/schedules?page_size=&page_token=.
func (s *httpServer) getSchedules(c *Call) (any, error) {
	page, err := c.storePage()
	if err != nil {
		return nil, err
	}
	found, err := s.cfg.Schedules.List(c.callContext(), c.Tenant(), page)
	return struct {
		Schedules []agent.Schedule `json:"schedules"`
		Next      string           `json:"next_page_token"`
	}{orEmpty(found.Schedules), found.Next}, err
}

// postSchedule is POST /v1/schedules.
func (s *httpServer) postSchedule(c *Call) (any, error) {
	var schedule agent.Schedule
	if err := c.decode(&schedule); err != nil {
		return nil, err
	}
	stored, err := s.storeSchedule(c, &schedule, true)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathSchedules+"/"+stored.Name)
	c.status = http.StatusCreated
	return stored, nil
}

// putSchedule is PUT /v1/schedules/{name}.
func (s *httpServer) putSchedule(c *Call) (any, error) {
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	var schedule agent.Schedule
	if err := c.decode(&schedule); err != nil {
		return nil, err
	}
	if schedule.Name != "" && schedule.Name != name {
		return nil, agent.Invalid("name", "is %.140q, but the path says %.140q", schedule.Name, name)
	}
	schedule.Name = name
	return s.storeSchedule(c, &schedule, false)
}

// storeSchedule completes, checks and stores a schedule.
func (s *httpServer) storeSchedule(c *Call, schedule *agent.Schedule, isNew bool) (agent.Schedule, error) {
	if err := c.setScheduleCaller(schedule); err != nil {
		return agent.Schedule{}, err
	}
	if err := schedule.Validate(); err != nil {
		return agent.Schedule{}, err
	}
	if schedule.Name == "." || schedule.Name == ".." {
		return agent.Schedule{}, agent.Invalid("name", "%q cannot be part of a path, so the schedule could not be read again", schedule.Name)
	}
	if err := checkWebhooks(schedule); err != nil {
		return agent.Schedule{}, err
	}
	if err := s.checkScheduledAgent(c, schedule); err != nil {
		return agent.Schedule{}, err
	}
	return s.cfg.Schedules.Put(c.callContext(), *schedule, c.Principal(), isNew)
}

// setScheduleCaller sets the tenant of a schedule, and its user if the credential has a subject. It clears read-only fields, so that clients can edit
// a response and send it back.
func (c *Call) setScheduleCaller(s *agent.Schedule) (err error) {
	if s.Tenant, err = c.tenantOfBody(s.Tenant); err != nil {
		return err
	}
	s.Revision, s.CreatedBy, s.UpdatedBy, s.CreatedAt, s.UpdatedAt, s.Next = 0, "", "", nil, nil, nil
	p := c.Principal()
	if p.Trusted() || p.Subject == "" {
		return nil
	}
	if s.UserID != "" && s.UserID != p.Subject {
		return agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it runs on nobody else's behalf")
	}
	s.UserID = p.Subject
	for i, n := range s.Notify {
		if n.Telegram != nil && n.Telegram.User != p.Subject {
			return agent.FieldErrorf(agent.CodeDenied, fmt.Sprintf("notify[%d].telegram.user", i), "the credential is the user's own: it writes to nobody else")
		}
	}
	return nil
}

// checkWebhooks returns an error if the URL of a webhook is invalid.
func checkWebhooks(schedule *agent.Schedule) error {
	for i, n := range schedule.Notify {
		if n.Webhook == nil {
			continue
		}
		if u, err := url.Parse(n.Webhook.URL); err != nil || u.Host == "" || u.Fragment != "" {
			return agent.Invalid(fmt.Sprintf("notify[%d].webhook.url", i), "is not a valid URL")
		}
	}
	return nil
}

// checkScheduledAgent returns an error unless the caller may run the agent of a schedule and the agent has the schedule's model.
func (s *httpServer) checkScheduledAgent(c *Call, schedule *agent.Schedule) error {
	if schedule.Agent == "" { // routing chooses one for each run
		if p := c.Principal(); !p.MayAny(agent.ActionTurnsRun) {
			return agent.FieldErrorf(agent.CodeDenied, "agent", "the credential does not allow %s", agent.ActionTurnsRun)
		}
		return nil
	}
	if err := c.Allow(agent.ActionTurnsRun, schedule.Agent); err != nil {
		return agent.FieldErrorf(agent.CodeOf(err), "agent", "%w", err)
	}
	plan, _, err := s.cfg.SchedulePlans.Resolve(c.callContext(), schedule.Tenant, schedule.Agent)
	if err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			return agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", schedule.Agent)
		}
		return err
	}
	var profiles []string
	for i := range plan.Models {
		profiles = append(profiles, plan.Models[i].Profile)
	}
	if schedule.Model != "" && !slices.Contains(profiles, schedule.Model) {
		return agent.Invalid("model", "agent %q has no model %.140q: want one of %v", schedule.Agent, schedule.Model, profiles)
	}
	return nil
}

// getSchedule is GET /v1/schedules/{name}.
func (s *httpServer) getSchedule(c *Call) (any, error) {
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	return s.cfg.Schedules.Get(c.callContext(), c.Tenant(), name)
}

// deleteSchedule is DELETE /v1/schedules/{name}.
func (s *httpServer) deleteSchedule(c *Call) (any, error) {
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	c.status = http.StatusNoContent
	return nil, s.cfg.Schedules.Delete(c.callContext(), c.Tenant(), name)
}

// setSchedulePaused is POST /v1/schedules/{name}/pause and POST /v1/schedules/{name}/resume.
func (s *httpServer) setSchedulePaused(c *Call, paused bool) (any, error) {
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	var body struct {
		Note string `json:"note,omitempty"`
	}
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	note, err := c.pauseNote("note", body.Note, paused)
	if err != nil {
		return nil, err
	}
	return s.cfg.Schedules.Pause(c.callContext(), c.Tenant(), name, paused, note)
}

// pauseNote returns the note for pausing or resuming a schedule. If the request has none, the note names the caller.
func (c *Call) pauseNote(field, note string, paused bool) (string, error) {
	switch {
	case len(note) > maxNote || strings.ContainsRune(note, 0):
		return "", agent.Invalid(field, "want at most %d bytes", maxNote)
	case note != "":
		return note, nil
	}
	note = "resumed"
	if paused {
		note = "paused"
	}
	p := c.Principal()
	if caller := cmp.Or(p.Subject, p.Credential); caller != "" {
		note += " by " + caller
	}
	return note, nil
}

// triggerSchedule is POST /v1/schedules/{name}/trigger.
func (s *httpServer) triggerSchedule(c *Call) (any, error) {
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	if err := c.decodeIfAny(&struct{}{}); err != nil {
		return nil, err
	}
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > maxTriggerKey {
		return nil, agent.Invalid("Idempotency-Key", "is %d bytes, at most %d", len(key), maxTriggerKey)
	}
	c.status = http.StatusAccepted
	return s.cfg.Schedules.Trigger(c.callContext(), c.Tenant(), name, key)
}

// getScheduleRuns is GET /v1/schedules/{name}/runs?page_size=&page_token=.
func (s *httpServer) getScheduleRuns(c *Call) (any, error) {
	page, err := c.storePage()
	if err != nil {
		return nil, err
	}
	name, err := c.scheduleName()
	if err != nil {
		return nil, err
	}
	found, err := s.cfg.Schedules.Runs(c.callContext(), c.Tenant(), name, page)
	return struct {
		Runs []agent.ScheduleRun `json:"runs"`
		Next string              `json:"next_page_token"`
	}{orEmpty(found.Runs), found.Next}, err
}
