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
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// answer is a scripted reply, or the failure of one.
type answer struct {
	agent.ModelReply

	endless bool // its text again and again, until the client leaves
	err     error
}

func textAnswer(s string) answer { return reply(agent.FinishStop, agent.Text(s)) }

func calls(name string, args ...string) answer {
	var blocks []agent.Block
	for i, raw := range args {
		blocks = append(blocks, wire.ToolCall(string(rune('a'+i)), name, raw))
	}
	return reply(agent.FinishToolCalls, blocks...)
}

func reply(finish agent.FinishReason, blocks ...agent.Block) answer {
	return answer{ModelReply: agent.ModelReply{Blocks: blocks, FinishReason: finish, Usage: agent.Usage{InputTokens: 120, OutputTokens: 45}}}
}

func fails(code agent.Code) answer { return answer{err: agent.Errorf(code, "call model", "scripted")} }

// asked is a request as a script reads it.
type asked struct {
	model, last string // the last message of the user
	code        string // what the tool has answered
	answered    bool
	tools       bool
	schema      bool
}

// script is a model by its answers.
type script func(asked) answer

func (m script) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	q := asked{model: req.Model, tools: len(req.Tools) > 0, schema: len(req.OutputSchema) > 0}
	for _, message := range req.Messages {
		var result struct{ Code string }
		switch message.Role {
		case agent.RoleUser:
			q.last = agent.Normalize(message.Blocks)
		case agent.RoleTool:
			_ = json.Unmarshal(message.Blocks[0].Output, &result)
			q.answered, q.code = true, result.Code
		case agent.RoleSystem, agent.RoleAssistant:
		}
	}
	a := m(q)
	if a.err != nil {
		return agent.ModelReply{}, a.err
	}
	for text := agent.Normalize(a.Blocks); ; {
		for i := 0; i < len(text); i += 4 {
			if err := errors.Join(agent.Interrupted(ctx, "call model"), emit(agent.Delta{Text: text[i:min(len(text), i+4)]})); err != nil {
				return agent.ModelReply{}, err
			}
		}
		if !a.endless {
			return a.ModelReply, nil
		}
	}
}

// honest is a model that does what it is asked.
func honest(q asked) answer {
	switch {
	case strings.HasPrefix(q.model, "no-such-model"):
		return fails(agent.CodeNotFound)
	case q.answered && q.schema:
		return textAnswer(`{"code":"` + q.code + `"}`)
	case q.answered:
		return textAnswer("The code is " + q.code + ".")
	case q.tools && strings.Contains(q.last, "Oslo"):
		return calls("lookup_code", `{"city":"Lisbon"}`, `{"city":"Oslo"}`)
	case q.tools:
		return calls("lookup_code", `{"city":"Lisbon"}`)
	case q.schema:
		return textAnswer(`{"city":"Lisbon","coastal":true,"rivers":1}`)
	case strings.Contains(q.last, "story"):
		story := textAnswer("and then ")
		story.endless = true
		return story
	case strings.Contains(q.last, "Count"):
		return textAnswer("1 2 3 4 5 6 7 8 9")
	case strings.Contains(q.last, "colour"):
		return textAnswer("Red.")
	default:
		return textAnswer("ready")
	}
}

// claiming is a model with other capabilities than its provider's.
type claiming struct {
	agent.Model

	caps agent.Capabilities
}

func (c claiming) Capabilities() agent.Capabilities { return c.caps }

func config(m script) doctor.Config {
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
	checks, s := run(t, config(honest))
	for name, c := range checks {
		require.True(t, c.OK, "%s: %s", name, c.Detail)
		require.False(t, c.Skipped, "%s: %s", name, c.Detail)
	}
	require.Equal(t, 15, s.Passed)
	require.Positive(t, s.Usage.InputTokens)
	require.Zero(t, s.Failed+s.Skipped)
}

// What is not claimed is not tried, and is no failure.
func TestUnclaimedIsNotTried(t *testing.T) {
	t.Parallel()
	cfg := config(honest)
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
func bent(when func(asked) bool, then answer) script {
	return func(q asked) answer {
		if when(q) {
			return then
		}
		return honest(q)
	}
}

// Every check catches the lie that it is for, and those after it are tried all the same.
func TestLiarsAreCaught(t *testing.T) {
	t.Parallel()
	toolAsked := func(q asked) bool { return q.tools && !q.answered && !strings.Contains(q.last, "Oslo") }
	answering := func(q asked) bool { return q.answered }
	twice := func(q asked) bool { return strings.Contains(q.last, "Oslo") }
	asks := func(word string) func(asked) bool {
		return func(q asked) bool { return strings.Contains(q.last, word) }
	}
	uncounted, whole, stopped := textAnswer("ready"), textAnswer("1 2"), calls("lookup_code", `{"city":"Lisbon"}`)
	uncounted.Usage = agent.Usage{}
	stopped.FinishReason = agent.FinishLength
	const isBlock, atEnd, used = "a tool call is a block", "the call comes at the end of the stream", "the tool's result is used"
	const refused, structured, beside = "an unknown model is refused", "structured output", "structured output beside tools"
	for _, tt := range []struct {
		check, says string
		script      script
	}{
		{"answers in text", "the reply has no text", bent(asks("ready"), reply(agent.FinishStop))},
		{"reports usage", "0 tokens in, 0 out", bent(asks("ready"), uncounted)},
		{"streams", "the text came in 1 piece", bent(asks("Count"), whole)},
		{isBlock, "the call came as text", bent(toolAsked, textAnswer(`<tool_call>{"name":"lookup_code"}</tool_call>`))},
		{isBlock, "so that the answer is made up", bent(toolAsked, textAnswer("The code is K1234567."))},
		{isBlock, "the arguments are not valid JSON", bent(toolAsked, calls("lookup_code", `{"city":`))},
		{isBlock, "the arguments break the tool's schema: town: unknown field", bent(toolAsked, calls("lookup_code", `{"town":"Lisbon"}`))},
		{isBlock, "the arguments break the tool's schema: {}", bent(toolAsked, calls("lookup_code", ``))},
		{isBlock, `it called "search"`, bent(toolAsked, calls("search", `{"city":"Lisbon"}`))},
		{atEnd, "the stream ended without the call", bent(toolAsked, textAnswer("No."))},
		{atEnd, `the stream ended with "length"`, bent(toolAsked, stopped)},
		{used, "and it answers", bent(answering, textAnswer("The code is K1234567."))},
		{used, "it called the tool again", bent(answering, stopped)},
		{"parallel calls have ids of their own", "so that the answer is made up", bent(twice, textAnswer("K1 and K2."))},
		{refused, "it answered in the name of a model that does not exist", func(q asked) answer {
			q.model = "scripted-1"
			return honest(q)
		}},
		{refused, "want not_found or invalid, got unavailable", bent(func(q asked) bool { return q.model != "scripted-1" }, fails(agent.CodeUnavailable))},
		{"cancelling ends the request", "no word came that could be cancelled", bent(asks("story"), fails(agent.CodeUnavailable))},
		{structured, "the answer breaks the schema", bent(asks("one sentence"), textAnswer("Lisbon is a city."))},
		{structured, "the answer lacks a field", bent(asks("one sentence"), textAnswer(`{"city":"Lisbon"}`))},
		{beside, "the schema suppressed the tool call", bent(func(q asked) bool { return q.schema && toolAsked(q) }, textAnswer(`{"code":"K1234567"}`))},
		{beside, "the answer breaks the schema", bent(answering, textAnswer("The code is K1234567."))},
		{beside, "and it answers", bent(answering, textAnswer(`{"code":"K1234567"}`))},
		{"sees images", `shown a red square it says "Blue."`, bent(asks("colour"), textAnswer("Blue."))},
	} {
		t.Run(tt.check+", "+tt.says, func(t *testing.T) {
			t.Parallel()
			checks, s := run(t, config(tt.script))
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
	checks, s := run(t, config(func(q asked) answer {
		q.last = strings.ReplaceAll(q.last, "Oslo", "")
		return honest(q)
	}))
	require.Zero(t, s.Failed)
	require.Equal(t, "not tried: it makes one call at a time", checks["parallel calls have ids of their own"].Detail)
}

func TestLayersOutOfOrder(t *testing.T) {
	t.Parallel()
	cfg := config(honest)
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
			cfg := config(honest)
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
	cfg := config(honest)
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
	cfg := config(honest)
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
	cfg := config(honest)
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

func TestExaminationIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s, err := doctor.Run(ctx, config(honest), func(doctor.Check) {
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
