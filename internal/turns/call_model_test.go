package turns_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
	"github.com/turnstone-run/turnstone/internal/turns"
)

func TestModelCallStreamsAndStores(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(says("Hel", "lo", " there"))
	in := turns.CallModelInput{TurnID: ref.TurnID, Step: 1}
	v, err := h.CallModel(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, agent.FinishStop, v.FinishReason)
	require.Empty(t, v.Model, "the workflow already knows the model")
	require.InDelta(t, 100e-6+100e-6, v.Usage.CostUSD, 1e-9)
	require.Empty(t, v.Calls)
	require.Equal(t, "Hello there", streamtest.Shown(h.events("t1")))

	again, err := h.CallModel(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, v, again)
	require.Len(t, h.model.seen, 1, "a stored step is not repeated")

	prompt := h.model.seen[0]
	require.Equal(t, "You are an analyst.\n\nSession: s1", prompt.SystemPrompt())
	require.Equal(t, []agent.Message{agent.UserText("hello")}, prompt.Messages)
	require.Equal(t, "lookup", prompt.Tools[0].Name)
}

func TestModelRetryIsANewEpoch(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(
		func(_ context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
			if err := emit(agent.Delta{Text: "lost words"}); err != nil {
				return agent.ModelReply{}, err
			}
			// A stream that is cut off, was billed and was shown.
			require.Eventually(t, func() bool { return streamtest.Shown(h.events("t1")) == "lost words" }, 5*time.Second, 10*time.Millisecond)
			require.Equal(t, "lost words", h.PartialText(t.Context(), "t1"))
			return agent.ModelReply{Usage: agent.Usage{OutputTokens: 7}}, agent.Errorf(agent.CodeUnavailable, "", "connection cut")
		},
		says("all is ", "well"))
	v := h.callModel(ref.TurnID, 1)
	require.Equal(t, int64(17), v.Usage.OutputTokens, "the usage of the retry counts")
	events := h.events("t1")
	require.Contains(t, types(events), agent.EventReset)
	require.Equal(t, "all is well", h.PartialText(t.Context(), "t1"), "the voided text is not shown")
	h.model.script(says("another step"))
	h.callModel(ref.TurnID, 2)
	require.Equal(t, "another step", h.PartialText(t.Context(), "t1"))
	require.Equal(t, "all is well", streamtest.Shown(events))
}

func TestProviderFailureIsData(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	denied := func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, agent.Errorf(agent.CodeDenied, "call model", "bad key")
	}
	h.model.script(denied, denied)
	v := h.callModel(ref.TurnID, 1)
	require.Equal(t, "unavailable", v.Failure.Type)
	require.Len(t, h.model.seen, 1, "a refusal is not retried")

	limited := func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Hour, Err: context.DeadlineExceeded}
	}
	h.model.script(limited, limited)
	v = h.callModel(ref.TurnID, 2)
	require.Equal(t, "rate_limited", v.Failure.Type)
	require.True(t, v.Failure.Retryable)
	require.Len(t, h.model.seen, 2, "the call does not wait for an hour")
}

func TestCancelStopsTheModelWithinASecond(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	stopped := make(chan struct{})
	h.model.script(hangs("so far", stopped))
	done := make(chan agent.ModelVerdict, 1)
	go func() {
		v, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: ref.TurnID, Step: 1})
		if err == nil {
			done <- v
		}
		close(done)
	}()
	require.Eventually(t, func() bool { return streamtest.Shown(h.events("t1")) == "so far" }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, h.MarkCancelled(t.Context(), "t1"))
	select {
	case <-stopped:
	case <-time.After(time.Second):
		require.Fail(t, "the model was not stopped within a second")
	}
	v, ok := <-done
	require.True(t, ok)
	require.True(t, v.Cancelled)
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, "so far", agent.Normalize(models[0].Blocks), "the partial text is stored")
}

func TestCancelInterruptsTheWaitForARetry(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	failed := make(chan struct{})
	h.model.script(func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		close(failed)
		return agent.ModelReply{}, &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Second, Err: context.DeadlineExceeded}
	})
	go func() {
		<-failed
		_ = h.MarkCancelled(context.WithoutCancel(t.Context()), "t1")
	}()
	v := h.callModel(ref.TurnID, 1)
	require.True(t, v.Cancelled)
	require.Len(t, h.model.seen, 1)
}

func TestZombieWritesNothingMore(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	stopped := make(chan struct{})
	hang := hangs("zombie", stopped)
	h.model.script(func(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		reply, err := hang(ctx, req, emit)
		reply.Usage.OutputTokens = 3
		return reply, err
	}, says("the living"))
	zombie := make(chan error, 1)
	go func() {
		_, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: ref.TurnID, Step: 1})
		zombie <- err
	}()
	require.Eventually(t, func() bool { return streamtest.Shown(h.events("t1")) == "zombie" }, 5*time.Second, 10*time.Millisecond)

	h.callModel(ref.TurnID, 1)
	require.ErrorContains(t, <-zombie, "fenced")
	<-stopped
	require.Equal(t, "the living", streamtest.Shown(h.events("t1")))
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, "the living", agent.Normalize(models[0].Blocks))
	page, err := h.store.Usage(t.Context(), agent.UsageQuery{Tenant: "default", TurnID: "t1", Group: []agent.UsageKey{agent.UsageEpoch}})
	require.NoError(t, err)
	require.Len(t, page.Rows, 2, "each try is in the ledger under its own epoch")
	require.Equal(t, []int64{3, 10}, []int64{page.Rows[0].OutputTokens, page.Rows[1].OutputTokens})
	require.Equal(t, int64(1), page.Totals.RebilledCalls, "the repeated costs are reported")
	require.Equal(t, page.Rows[0].InputTokens+3, page.Totals.EstimatedTokens, "the usage of the overtaken attempt is estimated")
}

func TestTokensAreSignalled(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("one ", "two ", "three"))
	_, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: ref.TurnID, Step: 1, StreamTo: &agent.StreamTo{WorkflowID: "w", Signal: "s", IntervalMS: 100}})
	require.NoError(t, err)
	var all string
	for i, b := range h.runs.batches {
		require.Equal(t, i+1, b.Batch)
		all += b.Text
	}
	require.Equal(t, "one two three", all)
	require.True(t, h.runs.batches[len(h.runs.batches)-1].Done)
}

func TestVerdictsOfCalls(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	stranger := toolCall("c", `{}`)
	stranger.Name = "format_disk"
	h.model.script(calls(toolCall("a", `{}`), toolCall("a", ``), stranger,
		agent.Block{Type: agent.BlockInvalidToolCall, ID: "d", Name: "lookup", Error: "unexpected end of JSON"}))
	v := h.callModel(ref.TurnID, 1)
	require.Equal(t, []agent.CallVerdict{
		{ID: "a", Name: "lookup", Summary: "lookup", Gate: agent.GateApproval, Rule: "not inherently safe"},
		{ID: "a_2", Name: "lookup", Summary: "lookup", Gate: agent.GateApproval, Rule: "not inherently safe"},
		{ID: "c", Name: "format_disk", Summary: "format_disk", Local: true},
		{ID: "d", Name: "lookup", Summary: "lookup", Local: true},
	}, v.Calls)
	for id, message := range map[string]string{"c": "not granted in toolkit", "d": "unexpected end of JSON"} {
		tv := h.callTool(turns.CallToolInput{TurnID: ref.TurnID, Step: 1, CallID: agent.CallID(id)})
		require.True(t, tv.Failed)
		_, tools, err := h.store.Steps(t.Context(), "t1")
		require.NoError(t, err)
		found := false
		for _, step := range tools {
			found = found || (step.Key.CallID == agent.CallID(id) && strings.Contains(string(step.Result.Output), message))
		}
		require.True(t, found, message)
	}
	require.Zero(t, h.tool.count)
}

func TestTimeRunsOutDuringTheCall(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	stopped := make(chan struct{})
	h.model.script(hangs("so far", stopped))
	v, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: ref.TurnID, Step: 1, BudgetMS: 200})
	require.NoError(t, err)
	<-stopped
	require.True(t, v.OutOfTime)
	require.Nil(t, v.Failure)
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, "so far", agent.Normalize(models[0].Blocks))
}

// shoutingMiddleware changes the text that is streamed and stored.
type shoutingMiddleware struct{ agent.Pass }

func (shoutingMiddleware) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		reply, err := next(ctx, inv, req, func(d agent.Delta) error { return emit(agent.Delta{Text: strings.ToUpper(d.Text)}) })
		for i := range reply.Blocks {
			reply.Blocks[i].Text = strings.ToUpper(reply.Blocks[i].Text)
		}
		return reply, err
	}
}

// TestMiddlewareChangesTheStream: text that a middleware removes is in no event and not in the store.
func TestMiddlewareChangesTheStream(t *testing.T) {
	set, err := middleware.NewSet(append(middleware.Builtin(2, nil), middleware.Named{
		Name: "emphatic", New: func(json.RawMessage) (agent.Middleware, error) { return shoutingMiddleware{}, nil },
	})...)
	require.NoError(t, err)
	h := newHarness(t, func(c *turns.Config) { c.Middleware = set })
	h.catalog.change(func(p *agent.Plan) {
		p.Middleware = append(slices.Clone(p.Middleware), agent.PlanMiddleware{Name: "emphatic"})
	})
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(says("quiet ", "words"))
	h.callModel(ref.TurnID, 1)
	text := ""
	for _, e := range h.events("t1") {
		text += e.Text
	}
	require.Equal(t, "QUIET WORDS", text)
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, "QUIET WORDS", agent.Normalize(models[0].Blocks))
}

// TestFallbackIsAskedAndCharged: model_fallback uses the model of another profile, with its prices, in a new epoch.
func TestFallbackIsAskedAndCharged(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) {
		p.Models = slices.Clone(p.Models)
		p.Models[1].OutputPerMTok = 1000
		p.Middleware = append([]agent.PlanMiddleware{{Name: "model_fallback", Options: json.RawMessage(`{"models":["other"]}`)}}, p.Middleware...)
	})
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	refuse := func(_ context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		if err := emit(agent.Delta{Text: "half an ans"}); err != nil {
			return agent.ModelReply{}, err
		}
		return agent.ModelReply{}, agent.Errorf(agent.CodeDenied, "call model", "no more credit")
	}
	h.model.script(refuse, says("done"))
	v := h.callModel(ref.TurnID, 1)
	require.Nil(t, v.Failure)
	require.Equal(t, []string{"scripted-1", "scripted-2"}, []string{h.model.seen[0].Model, h.model.seen[1].Model})
	require.Equal(t, "scripted-2", v.Model)
	require.Greater(t, v.Usage.CostUSD, 10*1000/1e6, "the usage of the partial answer counts")
	require.InDelta(t, 10*1000/1e6, v.Usage.CostUSD, 1e-4)
	require.Equal(t, 1, count(h.events("t1"), agent.EventReset), "the partial answer is voided")
	require.Equal(t, v.Usage, shownUsage(h.events("t1")), "viewers see the usage of all requests")
}

// shownUsage adds up the usage events that are valid: a reset voids the earlier ones of its producer.
func shownUsage(events []agent.Event) (sum agent.Usage) {
	for i, e := range events {
		isVoid := slices.ContainsFunc(events[i:], func(later agent.Event) bool {
			return later.Type == agent.EventReset && later.Producer == e.Meta.Producer && e.Meta.EventIndex >= later.FromIndex
		})
		if e.Type == agent.EventUsage && !isVoid {
			sum = sum.Add(*e.Usage)
		}
	}
	return sum
}

func count(events []agent.Event, kind agent.EventType) int {
	n := 0
	for _, e := range events {
		if e.Type == kind {
			n++
		}
	}
	return n
}
