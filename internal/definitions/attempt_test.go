package definitions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// A stopping worker does not wait for the next attempt. If nothing was sent, another worker repeats the attempt; if the receiver refused it, the node fails.
func TestWorkerStopEndsRetryPause(t *testing.T) {
	for name, marks := range map[string]bool{"nothing was sent": false, "it was sent and refused": true} {
		t.Run(name, func(t *testing.T) {
			config := strings.Replace(mailConfig, "{", `{"retries":{"max_attempts":3,"interval_sec":60},`, 1)
			b := newBench(t, node(agent.WorkflowTask, config), `{"flight":"A","price":1}`)
			stops := make(chan struct{})
			b.world.OnMail = func(_ notifications.Mail, mark func() error) error {
				if marks {
					require.NoError(t, mark())
				}
				close(stops) // a second attempt would panic here
				return agent.Errorf(agent.CodeUnavailable, "", "busy now")
			}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerStopChannel(stops)
			runNode := activities.NewDefinitions(b.Runner).RunNode
			env.RegisterActivity(runNode)
			began := time.Now()
			got, err := env.ExecuteActivity(runNode, definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
			require.Less(t, time.Since(began), 20*time.Second)
			if marks {
				require.NoError(t, err)
				var out definitions.NodeResult
				require.NoError(t, got.Get(&out))
				require.Equal(t, "unavailable", out.Failure.Type)
				require.Contains(t, out.Failure.Message, "busy now")
				return
			}
			require.ErrorContains(t, err, "the worker stops")
			b.world.OnMail = nil
			require.Nil(t, b.visit("n").Failure, "another worker sends it")
			require.Len(t, b.world.Mails(), 1)
		})
	}
}

// When a stopping worker aborts a GET, another worker repeats it.
func TestWorkerStopDoesNotFailRepeatableNode(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, `{"action":"webhook","method":"GET","url":"https://example.com","retries":{"max_attempts":1}}`), "")
	ctx, cancel := context.WithCancel(t.Context())
	b.world.OnHook = func(notifications.Webhook, func() error) (notifications.WebhookAnswer, error) {
		cancel()
		return notifications.WebhookAnswer{}, fmt.Errorf("cut: %w", notifications.ErrUnknown)
	}
	_, err := b.RunNode(ctx, definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
	require.Error(t, err)
	b.world.OnHook = nil
	require.Nil(t, b.visit("n").Failure)
}

// hookFunc is a webhook client that answers 200.
type hookFunc func(ctx context.Context)

func (f hookFunc) Send(ctx context.Context, _ notifications.Webhook, _ func() error) (notifications.WebhookAnswer, error) {
	f(ctx)
	return notifications.WebhookAnswer{Status: 200}, nil
}

// A webhook has its own timeout, or 30 s by default, limited by the maximum time of an attempt.
func TestWebhookTimeout(t *testing.T) {
	for timeout, want := range map[string]time.Duration{
		"": 30 * time.Second, `"timeout_sec":1,`: time.Second, `"timeout_sec":90,`: 90 * time.Second, `"timeout_sec":480,`: 8 * time.Minute,
		`"timeout_sec":86400,`: 8 * time.Minute,
	} {
		b := newBench(t, node(agent.WorkflowTask, `{`+timeout+`"action":"webhook","url":"https://example.com"}`), "")
		var given time.Duration
		b.Webhooks = hookFunc(func(ctx context.Context) {
			at, ok := ctx.Deadline()
			require.True(t, ok)
			given = time.Until(at)
		})
		require.Nil(t, b.visit("n").Failure)
		require.InDelta(t, want.Seconds(), given.Seconds(), 0.9, timeout)
	}
}

// If a pipeline with a POST runs out of time, its outcome is unknown.
func TestPipelinePostTimeout(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, `{"action":"pipeline","pipeline":[{"method":"POST"}]}`), "")
	ctx, cancel := context.WithCancel(t.Context())
	b.world.Fetched = func(definitions.PipelineCall) (definitions.PipelineResult, error) {
		cancel()
		return definitions.PipelineResult{}, agent.Errorf(agent.CodeCancelled, "call execute_pipeline", "%w", errors.New("out of time"))
	}
	out, err := b.RunNode(ctx, definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
	require.NoError(t, err)
	require.Equal(t, agent.OutcomeUnknown, out.Failure.Type)
	require.Equal(t, 1, strings.Count(out.Failure.Message, "it may have taken effect"), out.Failure.Message)
}

// A truncated answer is marked in the output.
func TestTruncatedWebhookAnswer(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, `{"action":"webhook","url":"https://example.com"}`), "")
	b.world.OnHook = func(_ notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error) {
		return notifications.WebhookAnswer{Status: 200, Body: []byte(`{"a":`), Truncated: true}, mark()
	}
	require.Nil(t, b.visit("n").Failure)
	require.JSONEq(t, `{"status":200,"body":"{\"a\":","truncated":true}`, string(b.step("n").Output))
}
