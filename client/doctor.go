package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"

	"github.com/tmaxmax/go-sse"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Check is one line of a doctor's checklist.
type Check = gateway.DoctorCheck

// Doctor has the server try out the models of an agent, or the one of a profile alone, and yields each check as it is done. Empty names
// mean the default agent and its models. A broken connection is not resumed: the error is [agent.CodeUnavailable].
func (c *Client) Doctor(ctx context.Context, agentName, profile string) iter.Seq2[Check, error] {
	return func(yield func(Check, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.LongTimeout)
		defer cancel()
		if err := c.readChecks(ctx, agentName, profile, func(check Check) bool { return yield(check, nil) }); err != nil {
			yield(Check{}, err)
		}
	}
}

// readChecks calls report with each check. It returns nil at the end of the checks, or when report returns false.
func (c *Client) readChecks(ctx context.Context, agentName, profile string, report func(Check) bool) error {
	resp, err := c.send(ctx, request{
		method: http.MethodPost, path: []string{"doctor"}, body: map[string]string{"agent": agentName, "model": profile},
		header: http.Header{"Accept": {"text/event-stream"}},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	for frame, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: c.cfg.MaxEvent}) {
		if err != nil {
			return interrupted(ctx, agent.Errorf(agent.CodeUnavailable, "", "read checks: %w", err))
		}
		switch frame.Type {
		case gateway.EventCheck:
			var check Check
			if err := json.Unmarshal([]byte(frame.Data), &check); err != nil {
				return fmt.Errorf("decode check: %w", err)
			}
			if !report(check) {
				return nil
			}
		case gateway.EventEnd:
			return nil
		case string(agent.EventError):
			var e agent.Event
			if err := json.Unmarshal([]byte(frame.Data), &e); err != nil {
				return fmt.Errorf("decode error: %w", err)
			}
			if e.Error != nil {
				return streamError(e.Error)
			}
		}
	}
	return interrupted(ctx, agent.Errorf(agent.CodeUnavailable, "", "the stream of checks ended early"))
}
