package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/doctor"
)

// withCapabilities is a model with these capabilities.
type withCapabilities struct {
	agent.Model

	caps agent.Capabilities
}

func (m withCapabilities) Capabilities() agent.Capabilities { return m.caps }

func config(m script) doctor.Config {
	return doctor.Config{
		Model:   withCapabilities{m, agent.Capabilities{OutputSchema: true}},
		Profile: agent.PlanModel{Profile: "p", Model: "scripted-1"},
		Layers:  fixedLayers(doctor.LayerRequests, doctor.LayerMiddleware, doctor.LayerObservability, doctor.LayerTools),
		Images:  true,
		Timeout: 20 * time.Second,
	}
}

func fixedLayers(layers ...string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return layers, nil }
}

func run(t *testing.T, cfg doctor.Config) (map[string]doctor.Check, doctor.Summary) {
	t.Helper()
	checks := map[string]doctor.Check{}
	s, err := doctor.Run(t.Context(), cfg, func(c doctor.Check) {
		require.NotEmpty(t, c.Rule)
		require.NotContains(t, checks, c.Name)
		checks[c.Name] = c
	})
	require.NoError(t, err)
	require.Equal(t, len(checks), s.Passed+s.Failed+s.Skipped)
	return checks, s
}

func TestGoodModelPasses(t *testing.T) {
	t.Parallel()
	checks, s := run(t, config(correctAnswer))
	for name, c := range checks {
		require.True(t, c.OK, "%s: %s", name, c.Detail)
		require.False(t, c.Skipped, "%s: %s", name, c.Detail)
	}
	require.Equal(t, 15, s.Passed)
	require.Positive(t, s.Usage.InputTokens)
	require.Zero(t, s.Failed+s.Skipped)
}

// Checks of capabilities that a model does not declare are skipped.
func TestUndeclaredIsSkipped(t *testing.T) {
	t.Parallel()
	cfg := config(correctAnswer)
	cfg.Model, cfg.Images, cfg.Layers = cfg.Model.(withCapabilities).Model, false, nil
	checks, s := run(t, cfg)
	require.Equal(t, []int{11, 0, 4}, []int{s.Passed, s.Failed, s.Skipped})
	for _, name := range []string{"layers are in order", "structured output", "structured output beside tools", "sees images"} {
		require.True(t, checks[name].Skipped, name)
		require.True(t, checks[name].OK)
		require.Contains(t, checks[name].Detail, "not tried: ")
	}
}

// except returns the correct script with another answer to some questions.
func except(matches func(question) bool, a answer) script {
	return func(q question) answer {
		if matches(q) {
			return a
		}
		return correctAnswer(q)
	}
}

// Every check fails for its kind of wrong answer, and the checks after it still run.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	needsTool := func(q question) bool { return q.hasTools && !q.hasResult && !strings.Contains(q.text, "Oslo") }
	hasResult := func(q question) bool { return q.hasResult }
	needsTwoCalls := func(q question) bool { return strings.Contains(q.text, "Oslo") }
	asks := func(word string) func(question) bool {
		return func(q question) bool { return strings.Contains(q.text, word) }
	}
	withoutUsage, inOnePiece, cutOff := textAnswer("ready"), textAnswer("1 2"), calls("lookup_code", `{"city":"Lisbon"}`)
	withoutUsage.Usage = agent.Usage{}
	cutOff.FinishReason = agent.FinishLength
	const isBlock, atEnd, used = "a tool call is a block", "the call comes at the end of the stream", "the tool's result is used"
	const refused, structured, beside = "an unknown model is refused", "structured output", "structured output beside tools"
	for _, tt := range []struct {
		check, says string
		script      script
	}{
		{"answers in text", "the reply has no text", except(asks("ready"), reply(agent.FinishStop))},
		{"reports usage", "0 tokens in, 0 out", except(asks("ready"), withoutUsage)},
		{"streams", "the text came in 1 piece", except(asks("Count"), inOnePiece)},
		{isBlock, "the call came as text", except(needsTool, textAnswer(`<tool_call>{"name":"lookup_code"}</tool_call>`))},
		{isBlock, "so that the answer is made up", except(needsTool, textAnswer("The code is K1234567."))},
		{isBlock, "the arguments are not valid JSON", except(needsTool, calls("lookup_code", `{"city":`))},
		{isBlock, "the arguments break the tool's schema: town: unknown field", except(needsTool, calls("lookup_code", `{"town":"Lisbon"}`))},
		{isBlock, "the arguments break the tool's schema: {}", except(needsTool, calls("lookup_code", ``))},
		{isBlock, `it called "search"`, except(needsTool, calls("search", `{"city":"Lisbon"}`))},
		{atEnd, "the stream ended without the call", except(needsTool, textAnswer("No."))},
		{atEnd, `the stream ended with "length"`, except(needsTool, cutOff)},
		{used, "and it answers", except(hasResult, textAnswer("The code is K1234567."))},
		{used, "it called the tool again", except(hasResult, cutOff)},
		{"parallel calls have ids of their own", "so that the answer is made up", except(needsTwoCalls, textAnswer("K1 and K2."))},
		{refused, "it answered in the name of a model that does not exist", func(q question) answer {
			q.model = "scripted-1"
			return correctAnswer(q)
		}},
		{refused, "want not_found or invalid, got unavailable", except(func(q question) bool { return q.model != "scripted-1" }, failure(agent.CodeUnavailable))},
		{"cancelling ends the request", "no word came that could be cancelled", except(asks("story"), failure(agent.CodeUnavailable))},
		{structured, "the answer breaks the schema", except(asks("one sentence"), textAnswer("Lisbon is a city."))},
		{structured, "the answer lacks a field", except(asks("one sentence"), textAnswer(`{"city":"Lisbon"}`))},
		{beside, "the schema suppressed the tool call", except(func(q question) bool { return q.hasSchema && needsTool(q) }, textAnswer(`{"code":"K1234567"}`))},
		{beside, "the answer breaks the schema", except(hasResult, textAnswer("The code is K1234567."))},
		{beside, "and it answers", except(hasResult, textAnswer(`{"code":"K1234567"}`))},
		{"sees images", `shown a red square it says "Blue."`, except(asks("colour"), textAnswer("Blue."))},
	} {
		t.Run(tt.check+", "+tt.says, func(t *testing.T) {
			t.Parallel()
			checks, s := run(t, config(tt.script))
			require.False(t, checks[tt.check].OK)
			require.Contains(t, checks[tt.check].Detail, tt.says)
			require.Positive(t, s.Failed)
			require.Len(t, checks, 15)
			require.GreaterOrEqual(t, s.Passed, 7, "the other checks run")
		})
	}
}

func TestOneCallAtATimeIsSkipped(t *testing.T) {
	t.Parallel()
	checks, s := run(t, config(func(q question) answer {
		q.text = strings.ReplaceAll(q.text, "Oslo", "")
		return correctAnswer(q)
	}))
	require.Zero(t, s.Failed)
	require.Equal(t, "not tried: it makes one call at a time", checks["parallel calls have ids of their own"].Detail)
}

func TestLayersOutOfOrder(t *testing.T) {
	t.Parallel()
	cfg := config(correctAnswer)
	cfg.Layers = fixedLayers(doctor.LayerTools, doctor.LayerObservability, doctor.LayerMiddleware)
	checks, _ := run(t, cfg)
	c := checks["layers are in order"]
	require.False(t, c.OK)
	require.Equal(t, "layer-order", c.Rule)
	require.Contains(t, c.Detail, "from the inside out they are tool_invocation, observability, middleware")
}

// changedReply is a model that changes the outcome of each call.
type changedReply struct {
	agent.Model

	change changeReply
}

type changeReply func(ctx context.Context, req agent.ModelRequest, reply agent.ModelReply, err error, emit func(agent.Delta) error) (agent.ModelReply, error)

func (m changedReply) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	reply, err := m.Model.Generate(ctx, req, emit)
	return m.change(ctx, req, reply, err, emit)
}

func TestWrongBehaviour(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	ran := agent.Block{Type: agent.BlockServerToolCall, ID: "s", Name: "lookup_code", Args: json.RawMessage(`{}`)}
	asking := func(req agent.ModelRequest, word string) bool {
		return strings.Contains(agent.Normalize(req.Messages[0].Blocks), word)
	}
	for _, tt := range []struct {
		check, rule, says string
		caps              agent.Capabilities
		change            changeReply
	}{
		{
			check: "streams", rule: "streaming", says: "what was streamed is not the reply",
			change: func(_ context.Context, req agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				if asking(req, "Count") {
					reply.Blocks[0].Text += " and more"
				}
				return reply, err
			},
		},
		{
			check: "who invokes tools is as declared", rule: "native-execution", says: `it ran "lookup_code" by itself`,
			change: func(_ context.Context, req agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				if len(req.Tools) > 0 {
					reply.Blocks = append([]agent.Block{ran}, reply.Blocks...)
				}
				return reply, err
			},
		},
		{
			check: "who invokes tools is as declared", rule: "no-execution", says: "left 1 to the runtime, which would never run them",
			caps: agent.Capabilities{InvokesTools: true},
		},
		{
			check: "parallel calls have ids of their own", rule: "distinct-call-ids", says: `2 calls share the id "a"`,
			change: func(_ context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				for i := range reply.Blocks {
					reply.Blocks[i].ID = "a"
				}
				return reply, err
			},
		},
		{
			check: "cancelling ends the request", rule: "cancellation", says: "the reply went on to its end",
			change: func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				if ctx.Err() != nil {
					err = nil
				}
				return reply, err
			},
		},
		{
			check: "cancelling ends the request", rule: "cancellation", says: "want cancelled, got internal",
			change: func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				if ctx.Err() != nil {
					return reply, errors.New("broken pipe")
				}
				return reply, err
			},
		},
		{
			check: "cancelling ends the request", rule: "cancellation", says: "the call goes on 1s after it was cancelled",
			change: func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error, _ func(agent.Delta) error) (agent.ModelReply, error) {
				if ctx.Err() != nil {
					<-release
				}
				return reply, err
			},
		},
		{
			check: "the call comes at the end of the stream", rule: "call-at-end", says: "fragments of the call were streamed as text",
			change: func(_ context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error, emit func(agent.Delta) error) (agent.ModelReply, error) {
				if len(agent.ToolCalls(reply.Blocks)) > 0 {
					err = errors.Join(err, emit(agent.Delta{Text: `{"city":`}))
				}
				return reply, err
			},
		},
		{
			check: "connects", rule: "reachable", says: "panic: lost the thread",
			change: func(context.Context, agent.ModelRequest, agent.ModelReply, error, func(agent.Delta) error) (agent.ModelReply, error) {
				panic("lost the thread")
			},
		},
	} {
		t.Run(tt.check+", "+tt.says, func(t *testing.T) {
			t.Parallel()
			cfg := config(correctAnswer)
			inner := cfg.Model.(withCapabilities).Model
			if tt.change != nil {
				inner = changedReply{inner, tt.change}
			}
			cfg.Model = withCapabilities{inner, tt.caps}
			checks, s := run(t, cfg)
			require.Equal(t, 1, s.Failed)
			require.False(t, checks[tt.check].OK)
			require.Contains(t, checks[tt.check].Detail, tt.says)
			require.Equal(t, tt.rule, checks[tt.check].Rule)
		})
	}
}

// A model that ignores its context does not delay the examination.
func TestModelIgnoresItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	cfg := config(correctAnswer)
	cfg.Timeout = 100 * time.Millisecond
	cfg.Model = changedReply{cfg.Model, func(context.Context, agent.ModelRequest, agent.ModelReply, error, func(agent.Delta) error) (agent.ModelReply, error) {
		<-release
		return agent.ModelReply{}, nil
	}}
	checks, s := run(t, cfg)
	require.Contains(t, checks["connects"].Detail, "did not end within 1s of its context")
	require.Equal(t, []int{1, 1, 13}, []int{s.Passed, s.Failed, s.Skipped}, "the other checks are skipped without a connection")
	require.Equal(t, "not tried: there is no connection", checks["streams"].Detail)
}

func TestExaminationIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s, err := doctor.Run(ctx, config(correctAnswer), func(doctor.Check) {
		if n++; n == 3 {
			cancel()
		}
	})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.Equal(t, 3, n)
	require.Equal(t, 3, s.Passed)

	_, err = doctor.Run(t.Context(), doctor.Config{}, nil)
	require.ErrorContains(t, err, "model: is missing")
}
