package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/job"
)

func TestData(t *testing.T) {
	rt, c := serve(t, func(c *client.Config) { c.Tenant = "acme" })
	rt.StoreRows("acme", "artifact://7f", `[{"a":"=1"}]`)
	for want, export := range map[string]client.Export{
		`[{"a":"=1"}]`:      {},
		`{"a":"=1"}` + "\n": {Format: "ndjson"},
		"a\r\n=1\r\n":       {Format: "csv"},
		"a\r\n\"'=1\"\r\n":  {Format: "csv", Spreadsheet: true},
	} {
		body, err := c.Data(t.Context(), "artifact://7f", export)
		require.NoError(t, err)
		data, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(string(data)))
	}
	_, err := c.Data(t.Context(), "turn-9", client.Export{})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = c.Data(t.Context(), "..", client.Export{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	var e *agent.Error
	_, err = c.Data(t.Context(), "artifact://7f", client.Export{Format: "xml"})
	require.ErrorAs(t, err, &e)
	require.Equal(t, "format", e.Field)
}

// Rows that did not all come are an error, and one that says whose.
func TestDataThatBreaksOff(t *testing.T) {
	rt, c := serve(t, nil)
	first := "[" + strings.Repeat(`"0123456789",`, 20_000)
	rt.StoreStream("default", "burns", func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(first), iotest.ErrReader(errors.New("disk on fire")))), nil
	})
	body, err := c.Data(t.Context(), "burns", client.Export{})
	require.NoError(t, err)
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "broke off")

	rt.StoreStream("default", "hangs", func(ctx context.Context) (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, first)
			<-ctx.Done()
			_ = out.CloseWithError(ctx.Err())
		}()
		return in, nil
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	body, err = c.Data(ctx, "hangs", client.Export{})
	require.NoError(t, err)
	defer body.Close()
	why := errors.New("enough")
	_, err = io.ReadFull(body, make([]byte, 1000))
	require.NoError(t, err)
	cancel(why)
	_, err = io.Copy(io.Discard, body)
	require.ErrorIs(t, err, why)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestTestChat(t *testing.T) {
	rt, c := serve(t, func(c *client.Config) { c.Tenant = "acme" })
	rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		switch r.Message {
		case "wait":
			rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a1", TurnID: id}},
				gatewaytest.Status(agent.StatusWaiting))
		case "fail":
			rt.Finish(id, agent.TurnFailed, "")
		default:
			rt.Say(id, "done")
		}
	}
	a, err := c.TestChat(t.Context(), client.Chat{
		JobID: "j1", Prompt: "go", SessionID: "s", Agent: "analyst", TimeoutSec: 7, Context: json.RawMessage(`{"workflow_state":{"step":1}}`),
	})
	require.NoError(t, err)
	require.Equal(t, "done", a.Result.Output)
	require.Equal(t, []string{"j1", string(job.TurnID("acme", "j1", 0)), "completed"}, []string{a.JobID, string(a.TurnID), a.State})
	e := rt.Submitted()[0]
	require.Equal(t, []any{"acme", "analyst", agent.SessionID("s"), int64(7)},
		[]any{e.Request.Context.Tenant, e.Request.Agent, e.Request.SessionID, e.Request.Limits.WallTimeSec})
	require.Contains(t, e.Request.Context.Metadata, agent.MetaWorkflowState)

	a, err = c.TestChat(t.Context(), client.Chat{Prompt: "fail"})
	require.NoError(t, err)
	require.Equal(t, job.StatusFailed, a.Result.Status)
	require.NotEmpty(t, a.JobID)

	a, err = c.TestChat(t.Context(), client.Chat{JobID: "j2", Prompt: "wait"})
	require.NoError(t, err)
	require.Nil(t, a.Result)
	require.Equal(t, []string{"j2", string(job.TurnID("acme", "j2", 0)), agent.StateWaiting}, []string{a.JobID, string(a.TurnID), a.State})
	require.Len(t, a.Pending, 1)

	_, err = c.TestChat(t.Context(), client.Chat{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}
