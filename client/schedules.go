package client

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

const schedulesPath = "schedules"

// Schedules returns a page of schedules, by name.
func (c *Client) Schedules(ctx context.Context, p agent.Page) (agent.SchedulePage, error) {
	schedules, next, err := page[agent.Schedule](ctx, c, "schedules", pageParams(p), schedulesPath)
	return agent.SchedulePage{Schedules: schedules, Next: next}, err
}

// Schedule returns one, with when it runs next.
func (c *Client) Schedule(ctx context.Context, name string) (agent.Schedule, error) {
	return get[agent.Schedule](ctx, c, nil, schedulesPath, name)
}

// CreateSchedule makes one. [agent.CodeConflict] for a name that is taken.
func (c *Client) CreateSchedule(ctx context.Context, s *agent.Schedule) (agent.Schedule, error) {
	return post[agent.Schedule](ctx, c, s, schedulesPath)
}

// PutSchedule makes one be what s says.
func (c *Client) PutSchedule(ctx context.Context, s *agent.Schedule) (agent.Schedule, error) {
	return call[agent.Schedule](ctx, c, request{method: http.MethodPut, path: []string{schedulesPath, s.Name}, body: s})
}

// DeleteSchedule ends one. Runs under way go on.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.exchange(ctx, request{method: http.MethodDelete, path: []string{schedulesPath, name}}, nil)
}

// PauseSchedule keeps a schedule from running, or lets it run again; note says why.
func (c *Client) PauseSchedule(ctx context.Context, name string, pause bool, note string) (agent.Schedule, error) {
	body := struct {
		Note string `json:"note,omitempty"`
	}{note}
	return post[agent.Schedule](ctx, c, body, schedulesPath, name, pauseAction(pause))
}

// TriggerSchedule runs a schedule now, besides when it is due.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (agent.ScheduleTriggered, error) {
	return call[agent.ScheduleTriggered](ctx, c, request{
		method: http.MethodPost, path: []string{schedulesPath, name, "trigger"}, body: struct{}{}, header: idempotencyKey(""),
	})
}

// ScheduleRuns returns a page of a schedule's runs, newest first.
func (c *Client) ScheduleRuns(ctx context.Context, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	runs, next, err := page[agent.ScheduleRun](ctx, c, "runs", pageParams(p), schedulesPath, name, "runs")
	return agent.ScheduleRunPage{Runs: runs, Next: next}, err
}

func pauseAction(pause bool) string {
	if pause {
		return "pause"
	}
	return "resume"
}
