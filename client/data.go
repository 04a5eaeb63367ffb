package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// Export says in which format [Client.Data] returns rows.
type Export struct {
	Format      string // json, csv or ndjson; empty: json
	Spreadsheet bool   // CSV: text that a spreadsheet would take for a formula gets a quote in front
}

// Data returns the rows of a result as a stream. ref is a reference, result id, turn id or job id. Read returns an error other than
// [io.EOF] if the connection breaks before the last row. The caller closes the stream.
func (c *Client) Data(ctx context.Context, ref string, e Export) (io.ReadCloser, error) {
	query := params("format", e.Format, "spreadsheet", flag(e.Spreadsheet))
	resp, err := c.send(ctx, request{path: []string{"results", ref, "data"}, query: query}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	return &resultBody{resp.Body, ctx}, nil
}

// resultBody is a response body whose read errors are [agent.CodeUnavailable].
type resultBody struct {
	io.ReadCloser

	ctx context.Context
}

// Read implements [io.Reader].
func (b *resultBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, interrupted(b.ctx, agent.Errorf(agent.CodeUnavailable, "", "the connection broke off before the end of the result: %w", err))
}

// Chat is a job for [Client.TestChat]; all but the prompt may be left out.
type Chat struct {
	JobID      string          `json:"job_id,omitempty"` // the same id is the same turn
	Prompt     string          `json:"prompt"`
	SessionID  string          `json:"session_id,omitempty"`
	Agent      string          `json:"agent,omitempty"`
	TimeoutSec int             `json:"timeout_sec,omitempty"`
	Context    json.RawMessage `json:"context,omitempty"` // as in a job message: previous_results, workflow_state
}

// JobResult is the result of a job that has ended.
type JobResult = job.Result

// ChatAnswer is how a job ended, or where it stands.
type ChatAnswer struct {
	Result *JobResult // nil: the job has not ended

	JobID   string
	TurnID  agent.TurnID
	State   string           // running, or waiting for a person
	Pending []agent.Approval // approvals that wait for a person
}

// TestChat runs a job and waits for its end, or until it waits for a person.
func (c *Client) TestChat(ctx context.Context, chat Chat) (ChatAnswer, error) {
	r := request{method: http.MethodPost, root: "test", path: []string{"chat"}, body: chat}
	resp, err := c.send(ctx, r)
	if err != nil {
		return ChatAnswer{}, err
	}
	if resp.StatusCode == http.StatusAccepted {
		var state struct {
			JobID   string           `json:"job_id"`
			TurnID  agent.TurnID     `json:"turn_id"`
			State   string           `json:"state"`
			Pending []agent.Approval `json:"pending"`
		}
		err := decodeAnswer(ctx, resp, r, &state)
		return ChatAnswer{JobID: state.JobID, TurnID: state.TurnID, State: state.State, Pending: state.Pending}, err
	}
	answer := ChatAnswer{Result: new(JobResult), TurnID: agent.TurnID(resp.Header.Get("Turnstone-Turn-Id"))}
	if err := decodeAnswer(ctx, resp, r, answer.Result); err != nil {
		return ChatAnswer{}, err
	}
	answer.JobID, answer.State = answer.Result.JobID, string(answer.Result.Status)
	return answer, nil
}
