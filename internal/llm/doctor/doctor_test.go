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
	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/doctor"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

func say(s string) llmtest.Scripted { return llmtest.Scripted{Reply: llmtest.TextReply(s, 4)} }

// honest is a model that does what it is asked.
func honest(asked llmtest.Sent) llmtest.Scripted {
	var result struct {
		Code string `json:"code"`
	}
	if len(asked.Outputs) > 0 {
		_ = json.Unmarshal([]byte(asked.Outputs[0]), &result)
	}
	switch {
	case strings.HasPrefix(asked.Model, "no-such-model"):
		return llmtest.Scripted{Status: 404}
	case result.Code != "" && asked.Schema:
		return say(`{"code":"` + result.Code + `"}`)
	case result.Code != "":
		return say("The code is " + result.Code + ".")
	case len(asked.Tools) > 0 && strings.Contains(asked.Last, "Oslo"):
		return llmtest.Scripted{Reply: llmtest.CallsReply("lookup_code", [2]string{"a", `{"city":"Lisbon"}`}, [2]string{"b", `{"city":"Oslo"}`})}
	case len(asked.Tools) > 0:
		return llmtest.Scripted{Reply: llmtest.CallReply("a", "lookup_code", `{"city":"Lisbon"}`)}
	case asked.Schema:
		return say(`{"city":"Lisbon","coastal":true,"rivers":1}`)
	case strings.Contains(asked.Last, "story"):
		return llmtest.Scripted{Reply: llmtest.TextReply("and then ", 3), Endless: true}
	case strings.Contains(asked.Last, "Count"):
		return say("1 2 3 4 5 6 7 8 9")
	case strings.Contains(asked.Last, "colour"):
		return say("Red.")
	default:
		return say("ready")
	}
}

// claiming is a model with other capabilities than its provider's.
type claiming struct {
	agent.Model

	caps agent.Capabilities
}

func (c claiming) Capabilities() agent.Capabilities { return c.caps }

func config(t *testing.T, script llmtest.Script) doctor.Config {
	t.Helper()
	m, err := openai.New(wire.Config{BaseURL: llmtest.Serve(t, llmtest.OpenAI{}, script), APIKey: "k"})
	require.NoError(t, err)
	return doctor.Config{
		Model:   claiming{m, agent.Capabilities{OutputSchema: true}},
		Profile: agent.PlanModel{Profile: "p", Model: "scripted-1"},
		Layers:  stacked(doctor.LayerRequests, doctor.LayerMiddleware, doctor.LayerObservability, doctor.LayerTools),
		Images:  true,
		Timeout: 20 * time.Second,
	}
}

func stacked(layers ...string) func(context.Context) ([]string, error) {
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

func TestHonestModelPasses(t *testing.T) {
	t.Parallel()
	checks, s := run(t, config(t, honest))
	for name, c := range checks {
		require.True(t, c.OK, "%s: %s", name, c.Detail)
		require.False(t, c.Skipped, "%s: %s", name, c.Detail)
	}
	require.Equal(t, 15, s.Passed)
	require.Positive(t, s.Usage.InputTokens)
	require.Zero(t, s.Failed+s.Skipped)
}

func TestHonestAnthropicPasses(t *testing.T) {
	t.Parallel()
	cfg := config(t, honest)
	var err error
	cfg.Model, err = anthropic.New(wire.Config{BaseURL: llmtest.Serve(t, llmtest.Anthropic{}, honest)})
	require.NoError(t, err)
	_, s := run(t, cfg)
	require.Equal(t, 15, s.Passed)
}

// What is not claimed is not tried, and is no failure.
func TestUnclaimedIsNotTried(t *testing.T) {
	t.Parallel()
	cfg := config(t, honest)
	cfg.Model, cfg.Images, cfg.Layers = cfg.Model.(claiming).Model, false, nil
	checks, s := run(t, cfg)
	require.Equal(t, []int{11, 0, 4}, []int{s.Passed, s.Failed, s.Skipped})
	for _, name := range []string{"layers are in order", "structured output", "structured output beside tools", "sees images"} {
		require.True(t, checks[name].Skipped, name)
		require.True(t, checks[name].OK)
		require.Contains(t, checks[name].Detail, "not tried: ")
	}
}

// bent is the honest model with one bad habit.
func bent(when func(llmtest.Sent) bool, then func(llmtest.Sent) llmtest.Scripted) llmtest.Script {
	return func(asked llmtest.Sent) llmtest.Scripted {
		if when(asked) {
			return then(asked)
		}
		return honest(asked)
	}
}

func always(s llmtest.Scripted) func(llmtest.Sent) llmtest.Scripted {
	return func(llmtest.Sent) llmtest.Scripted { return s }
}

// Every check catches the lie that it is for, and those after it are tried all the same.
func TestLiarsAreCaught(t *testing.T) {
	t.Parallel()
	toolAsked := func(s llmtest.Sent) bool {
		return len(s.Tools) > 0 && len(s.Results) == 0 && !strings.Contains(s.Last, "Oslo")
	}
	answering := func(s llmtest.Sent) bool { return len(s.Results) > 0 }
	twice := func(s llmtest.Sent) bool { return strings.Contains(s.Last, "Oslo") && len(s.Results) == 0 }
	asks := func(word string) func(llmtest.Sent) bool {
		return func(s llmtest.Sent) bool { return strings.Contains(s.Last, word) }
	}
	uncounted := llmtest.TextReply("ready", 5)
	uncounted.Usage = agent.Usage{}
	stopped := llmtest.CallReply("a", "lookup_code", `{"city":"Lisbon"}`)
	stopped.Finish = agent.FinishLength
	for _, tt := range []struct {
		check, says string
		script      llmtest.Script
	}{
		{"answers in text", "the reply has no text", bent(asks("ready"), always(llmtest.Scripted{Reply: llmtest.Reply{Finish: agent.FinishStop}}))},
		{"reports usage", "0 tokens in, 0 out", bent(asks("ready"), always(llmtest.Scripted{Reply: uncounted}))},
		{"streams", "the text came in 1 piece", bent(asks("Count"), always(llmtest.Scripted{Reply: llmtest.TextReply("1 2 3", 99)}))},
		{"a tool call is a block", "the call came as text", bent(toolAsked, always(say(`<tool_call>{"name":"lookup_code"}</tool_call>`)))},
		{"a tool call is a block", "so that the answer is made up", bent(toolAsked, always(say("The code is K1234567.")))},
		{"a tool call is a block", "the arguments are not valid JSON", bent(toolAsked, always(llmtest.Scripted{Reply: llmtest.CallReply("a", "lookup_code", `{"city":`)}))},
		{
			"a tool call is a block", "the arguments break the tool's schema: town: unknown field",
			bent(toolAsked, always(llmtest.Scripted{Reply: llmtest.CallReply("a", "lookup_code", `{"town":"Lisbon"}`)})),
		},
		{"a tool call is a block", "the arguments break the tool's schema: {}", bent(toolAsked, always(llmtest.Scripted{Reply: llmtest.CallReply("a", "lookup_code", ``)}))},
		{"a tool call is a block", `it called "search"`, bent(toolAsked, always(llmtest.Scripted{Reply: llmtest.CallReply("a", "search", `{"city":"Lisbon"}`)}))},
		{"the call comes at the end of the stream", "the stream ended without the call", bent(toolAsked, always(say("No.")))},
		{"the call comes at the end of the stream", `the stream ended with "length"`, bent(toolAsked, always(llmtest.Scripted{Reply: stopped}))},
		{"the tool's result is used", "and it answers", bent(answering, always(say("The code is K1234567.")))},
		{"the tool's result is used", "it called the tool again", bent(answering, always(llmtest.Scripted{Reply: stopped}))},
		{"parallel calls have ids of their own", "so that the answer is made up", bent(twice, always(say("K1 and K2.")))},
		{"an unknown model is refused", "it answered in the name of a model that does not exist", func(s llmtest.Sent) llmtest.Scripted {
			s.Model = "scripted-1"
			return honest(s)
		}},
		{"an unknown model is refused", "want not_found or invalid, got unavailable", bent(
			func(s llmtest.Sent) bool { return s.Model != "scripted-1" }, always(llmtest.Scripted{Status: 503}))},
		{"cancelling ends the request", "no word came that could be cancelled", bent(asks("story"), always(llmtest.Scripted{Status: 500}))},
		{"structured output", "the answer breaks the schema", bent(asks("one sentence"), always(say("Lisbon is a city.")))},
		{"structured output", "the answer lacks a field", bent(asks("one sentence"), always(say(`{"city":"Lisbon"}`)))},
		{
			"structured output beside tools", "the schema suppressed the tool call",
			bent(func(s llmtest.Sent) bool { return s.Schema && toolAsked(s) }, always(say(`{"code":"K1234567"}`))),
		},
		{"structured output beside tools", "the answer breaks the schema", bent(answering, always(say("The code is K1234567.")))},
		{"structured output beside tools", "and it answers", bent(answering, always(say(`{"code":"K1234567"}`)))},
		{"sees images", `shown a red square it says "Blue."`, bent(asks("colour"), always(say("Blue.")))},
	} {
		t.Run(tt.check+", "+tt.says, func(t *testing.T) {
			t.Parallel()
			checks, s := run(t, config(t, tt.script))
			require.False(t, checks[tt.check].OK)
			require.Contains(t, checks[tt.check].Detail, tt.says)
			require.Positive(t, s.Failed)
			require.Len(t, checks, 15)
			require.GreaterOrEqual(t, s.Passed, 7, "the others are tried")
		})
	}
}

func TestOneCallAtATimeIsNoFailure(t *testing.T) {
	t.Parallel()
	checks, s := run(t, config(t, func(asked llmtest.Sent) llmtest.Scripted {
		asked.Last = strings.ReplaceAll(asked.Last, "Oslo", "")
		return honest(asked)
	}))
	require.Zero(t, s.Failed)
	require.Equal(t, "not tried: it makes one call at a time", checks["parallel calls have ids of their own"].Detail)
}

func TestLayersOutOfOrder(t *testing.T) {
	t.Parallel()
	cfg := config(t, honest)
	cfg.Layers = stacked(doctor.LayerTools, doctor.LayerObservability, doctor.LayerMiddleware)
	checks, _ := run(t, cfg)
	c := checks["layers are in order"]
	require.False(t, c.OK)
	require.Equal(t, "layer-order", c.Rule)
	require.Contains(t, c.Detail, "from the inside out they are tool_invocation, observability, middleware")
}

// liar is a model that lies below its provider's protocol.
type liar struct {
	agent.Model

	bend func(ctx context.Context, req agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error)
}

func (l liar) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	reply, err := l.Model.Generate(ctx, req, emit)
	return l.bend(ctx, req, reply, err)
}

func TestLiarsBelowTheProtocol(t *testing.T) {
	t.Parallel()
	ran := agent.Block{Type: agent.BlockServerToolCall, ID: "s", Name: "lookup_code", Args: json.RawMessage(`{}`)}
	asking := func(req agent.ModelRequest, word string) bool {
		return strings.Contains(agent.Normalize(req.Messages[0].Blocks), word)
	}
	for _, tt := range []struct {
		check, rule, says string
		caps              agent.Capabilities
		bend              func(ctx context.Context, req agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error)
	}{
		{
			check: "streams", rule: "streaming", says: "what was streamed is not the reply",
			bend: func(_ context.Context, req agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
				if asking(req, "Count") {
					reply.Blocks[0].Text += " and more"
				}
				return reply, err
			},
		},
		{
			check: "who invokes tools is as declared", rule: "native-execution", says: `it ran "lookup_code" by itself`,
			bend: func(_ context.Context, req agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
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
			bend: func(_ context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
				for i := range reply.Blocks {
					reply.Blocks[i].ID = "a"
				}
				return reply, err
			},
		},
		{
			check: "cancelling ends the request", rule: "cancellation", says: "the reply went on to its end",
			bend: func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
				if ctx.Err() != nil {
					err = nil
				}
				return reply, err
			},
		},
		{
			check: "cancelling ends the request", rule: "cancellation", says: "want cancelled, got internal",
			bend: func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
				if ctx.Err() != nil {
					return reply, errors.New("broken pipe")
				}
				return reply, err
			},
		},
		{
			check: "connects", rule: "reachable", says: "panic: lost the thread",
			bend: func(context.Context, agent.ModelRequest, agent.ModelReply, error) (agent.ModelReply, error) {
				panic("lost the thread")
			},
		},
	} {
		t.Run(tt.check+", "+tt.says, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, honest)
			inner := cfg.Model.(claiming).Model
			if tt.bend != nil {
				inner = liar{inner, tt.bend}
			}
			cfg.Model = claiming{inner, tt.caps}
			checks, _ := run(t, cfg)
			require.False(t, checks[tt.check].OK)
			require.Contains(t, checks[tt.check].Detail, tt.says)
			require.Equal(t, tt.rule, checks[tt.check].Rule)
		})
	}
}

// leaking streams the fragments of a call as text, as some clients do.
type leaking struct{ agent.Model }

func (l leaking) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	reply, err := l.Model.Generate(ctx, req, emit)
	if len(agent.ToolCalls(reply.Blocks)) > 0 {
		err = errors.Join(err, emit(agent.Delta{Text: `{"city":`}))
	}
	return reply, err
}

func TestFragmentsAsText(t *testing.T) {
	t.Parallel()
	cfg := config(t, honest)
	cfg.Model = leaking{cfg.Model}
	checks, _ := run(t, cfg)
	require.False(t, checks["the call comes at the end of the stream"].OK)
	require.Contains(t, checks["the call comes at the end of the stream"].Detail, `fragments of the call were streamed as text`)
}

// A model that ignores its context does not hold the doctor up.
func TestDeafModelIsLeft(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	cfg := config(t, honest)
	cfg.Timeout = 100 * time.Millisecond
	cfg.Model = liar{cfg.Model, func(context.Context, agent.ModelRequest, agent.ModelReply, error) (agent.ModelReply, error) {
		<-release
		return agent.ModelReply{}, nil
	}}
	checks, s := run(t, cfg)
	require.Contains(t, checks["connects"].Detail, "did not end within 1s of its context")
	require.Equal(t, []int{1, 1, 13}, []int{s.Passed, s.Failed, s.Skipped}, "the rest is not tried without a connection")
	require.Equal(t, "not tried: there is no connection", checks["streams"].Detail)
}

// One that goes on after it was cancelled is caught, and left as well.
func TestDeafToCancel(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	cfg := config(t, honest)
	cfg.Model = liar{cfg.Model, func(ctx context.Context, _ agent.ModelRequest, reply agent.ModelReply, err error) (agent.ModelReply, error) {
		if ctx.Err() != nil {
			<-release
		}
		return reply, err
	}}
	checks, s := run(t, cfg)
	require.Equal(t, 1, s.Failed)
	require.Contains(t, checks["cancelling ends the request"].Detail, "the call goes on 1s after it was cancelled")
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	cfg := config(t, honest)
	m, err := openai.New(wire.Config{BaseURL: "http://127.0.0.1:1/v1"})
	require.NoError(t, err)
	cfg.Model = m
	checks, s := run(t, cfg)
	require.Contains(t, checks["connects"].Detail, "call model: openai: ")
	require.Equal(t, 1, s.Failed)
}

func TestExaminationIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s, err := doctor.Run(ctx, config(t, honest), func(doctor.Check) {
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
