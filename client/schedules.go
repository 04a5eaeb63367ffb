package client

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

const schedulesPath = "schedules"

// Schedules returns a page of schedules, by name.
func (c *Client) Schedules(ctx context.Context, p agent.Page) (agent.SchedulePage, error) {
	var out struct {
		Schedules []agent.Schedule `json:"schedules"`
		Next      string           `json:"next_page_token"`
	}
	err := c.call(ctx, http.MethodGet, []string{schedulesPath}, pageQuery(p), nil, &out)
	return agent.SchedulePage{Schedules: out.Schedules, Next: out.Next}, err
}

// Schedule returns one, with when it runs next.
func (c *Client) Schedule(ctx context.Context, name string) (agent.Schedule, error) {
	var out agent.Schedule
	return out, c.call(ctx, http.MethodGet, []string{schedulesPath, name}, nil, nil, &out)
}

// CreateSchedule makes one. [agent.CodeConflict] for a name that is taken.
func (c *Client) CreateSchedule(ctx context.Context, s *agent.Schedule) (agent.Schedule, error) {
	var out agent.Schedule
	return out, c.call(ctx, http.MethodPost, []string{schedulesPath}, nil, s, &out)
}

// PutSchedule makes one be what s says.
func (c *Client) PutSchedule(ctx context.Context, s *agent.Schedule) (agent.Schedule, error) {
	var out agent.Schedule
	return out, c.call(ctx, http.MethodPut, []string{schedulesPath, s.Name}, nil, s, &out)
}

// DeleteSchedule ends one. Runs under way go on.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, []string{schedulesPath, name}, nil, nil, nil)
}

// PauseSchedule keeps a schedule from running, or lets it run again; note says why.
func (c *Client) PauseSchedule(ctx context.Context, name string, pause bool, note string) (agent.Schedule, error) {
	action := "resume"
	if pause {
		action = "pause"
	}
	body := struct {
		Note string `json:"note,omitempty"`
	}{note}
	var out agent.Schedule
	return out, c.call(ctx, http.MethodPost, []string{schedulesPath, name, action}, nil, body, &out)
}

// TriggerSchedule runs a schedule now, besides when it is due.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (agent.ScheduleTriggered, error) {
	var out agent.ScheduleTriggered
	return out, c.callOnce(ctx, http.MethodPost, []string{schedulesPath, name, "trigger"}, nil, "", struct{}{}, &out)
}

// ScheduleRuns returns a page of a schedule's runs, newest first.
func (c *Client) ScheduleRuns(ctx context.Context, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	var out struct {
		Runs []agent.ScheduleRun `json:"runs"`
		Next string              `json:"next_page_token"`
	}
	err := c.call(ctx, http.MethodGet, []string{schedulesPath, name, "runs"}, pageQuery(p), nil, &out)
	return agent.ScheduleRunPage{Runs: out.Runs, Next: out.Next}, err
}
