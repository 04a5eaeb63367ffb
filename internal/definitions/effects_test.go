package definitions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

func TestPipelineRowsArePassedByReference(t *testing.T) {
	b := newBench(t, pipelineThenCheck("price < 500"), "")
	var all []string
	for i := range 12_000 { // more rows than are read to render text
		all = append(all, fmt.Sprintf(`{"flight":"F%d","price":%d}`, i, 400+i))
	}
	ref := b.put("[" + strings.Join(all, ",") + "]")
	var call definitions.PipelineCall
	b.world.Fetched = func(c definitions.PipelineCall) (definitions.PipelineResult, error) {
		call = c
		return definitions.PipelineResult{Ref: ref, RowCount: 12_000, Preview: json.RawMessage(`{"row_count":12000}`)}, nil
	}
	require.Nil(t, b.visit("fetch").Failure)
	require.Equal(t, "acme", call.Tenant)
	require.Equal(t, "u1", call.UserID)
	require.True(t, call.Repeatable)
	require.Equal(t, ref, b.step("fetch").Ref)
	require.Equal(t, definitions.NodeResult{Outcome: "true"}, b.visit("check", core.Source{Node: 0, Visit: 1}))
	checked := b.step("check")
	require.NotEqual(t, ref, checked.Ref)
	require.Contains(t, string(checked.Output), `"row_count":100`)
	require.Nil(t, b.visit("mail", core.Source{Node: 1, Visit: 1}).Failure)
	require.Contains(t, b.world.Mails()[0].Body, "F49")
	require.Contains(t, b.world.Mails()[0].Body, "… and 50 more rows")
}

func TestConditions(t *testing.T) {
	for name, c := range map[string]struct {
		expr, rows string
		want       string
		fails      bool
	}{
		"none satisfies it":       {"price < 5", `[{"price":10}]`, "false", false},
		"the last does":           {"price < 5", `[{"price":10},{"price":1}]`, "true", false},
		"no rows":                 {"price < 5", `[]`, "false", false},
		"over all of them":        {"size(input.rows) > 1", `[{"price":10},{"price":1}]`, "true", false},
		"of the run":              {"run.workflow_tag == 'main'", `[]`, "true", false},
		"of a step":               {"steps.fetch.row_count == 7", `[]`, "true", false},
		"one row is text":         {"price < 5", `[{"price":"x"},{"price":1}]`, "true", false},
		"each row is text":        {"price < 5", `[{"price":"x"}]`, "", true},
		"rows that are no rows":   {"price < 5", `{"a":1}`, "", true},
		"content that is no JSON": {"price < 5", `[{"price":1},`, "", true},
		"content that is cut":     {"price < 5", `[{"price":1}`, "", true},
		"cut, over all of them":   {"size(input.rows) > 0", `[{"price":1}`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pipelineThenCheck(c.expr), "")
			ref := b.put(c.rows)
			b.world.Fetched = func(definitions.PipelineCall) (definitions.PipelineResult, error) {
				return definitions.PipelineResult{Ref: ref, RowCount: 7}, nil
			}
			require.Nil(t, b.visit("fetch").Failure)
			out, err := b.RunNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: "check", Visit: 1, From: []core.Source{{Node: 0, Visit: 1}}})
			if c.fails {
				require.True(t, err != nil || out.Failure != nil)
				return
			}
			require.NoError(t, err)
			require.Nil(t, out.Failure)
			require.Equal(t, c.want, out.Outcome)
		})
	}
}

func TestSeveralPredecessors(t *testing.T) {
	def := agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "a", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"webhook","url":"https://example.com/a"}`)},
			{ID: "b", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"pipeline","pipeline":[]}`)},
			{ID: "c", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"email","body":"{{a.status}} {{b.rows[0].price}}"}`)},
		},
		Edges: []agent.WorkflowEdge{{From: "a", To: "c"}, {From: "b", To: "c"}},
	}
	b := newBench(t, def, "")
	ref := b.put(`[{"price":7}]`)
	b.world.Fetched = func(definitions.PipelineCall) (definitions.PipelineResult, error) {
		return definitions.PipelineResult{Ref: ref, RowCount: 1}, nil
	}
	b.visit("a")
	b.visit("b")
	require.Nil(t, b.visit("c", core.Source{Node: 0, Visit: 1}, core.Source{Node: 1, Visit: 1}).Failure)
	require.Equal(t, "200 7", b.world.Mails()[0].Body)
}

func TestPipelineFailures(t *testing.T) {
	for name, c := range map[string]struct {
		config  string
		failure *agent.Failure
		err     error
		want    string
		tries   int
	}{
		"of a step":             {`[{"step":"x"}]`, &agent.Failure{Type: "invalid", Message: "no"}, nil, "invalid", 1},
		"that may pass":         {`[{"step":"x"}]`, &agent.Failure{Type: "unavailable", Message: "away", Retryable: true}, nil, "unavailable", 4},
		"cut off while posting": {`[{"method":"POST"}]`, nil, fmt.Errorf("gone: %w", notifications.ErrUnknown), agent.OutcomeUnknown, 1},
		"cut off while reading": {`[{"step":"x"}]`, nil, fmt.Errorf("gone: %w", notifications.ErrUnknown), "unavailable", 4},
		"a post answered 500":   {`[{"method":"POST"}]`, &agent.Failure{Type: "unavailable", Message: "answered 500"}, nil, agent.OutcomeUnknown, 1},
		"a post answered 404":   {`[{"method":"POST"}]`, &agent.Failure{Type: "not_found", Message: "answered 404"}, nil, "not_found", 1},
		"a post answered 503":   {`[{"method":"POST"}]`, &agent.Failure{Type: "unavailable", Message: "answered 503", Retryable: true}, nil, "unavailable", 4},
	} {
		b := newBench(t, node(agent.WorkflowTask, `{"action":"pipeline","pipeline":`+c.config+`}`), "")
		tries := 0
		b.world.Fetched = func(definitions.PipelineCall) (definitions.PipelineResult, error) {
			tries++
			return definitions.PipelineResult{Failure: c.failure}, c.err
		}
		require.Equal(t, c.want, b.visit("n").Failure.Type, name)
		require.Equal(t, c.tries, tries, name)
	}
}

func TestMissingServicesFailTheNode(t *testing.T) {
	store := definitionstest.NewStore()
	a, err := definitions.New(definitions.Config{Store: store, Rows: definitionstest.NewRows()})
	require.NoError(t, err)
	def := agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{
		{ID: "email", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"email"}`)},
		{ID: "webhook", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"webhook","url":"https://example.com"}`)},
		{ID: "pipeline", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"pipeline"}`)},
	}}
	_, err = store.Put(agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: "default", Tag: "main"}, def)
	require.NoError(t, err)
	raw := []byte(`{"workflow_tag":"main","run_id":"r1"}`)
	begun, err := a.BeginRun(t.Context(), raw, definitions.BeginRunInput{WorkflowID: "w"})
	require.NoError(t, err)
	require.Nil(t, begun.Refusal)
	for _, n := range def.Nodes {
		out, err := a.RunNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: n.ID, Visit: 1})
		require.NoError(t, err)
		require.Equal(t, "invalid", out.Failure.Type, n.ID)
	}
	_, err = definitions.New(definitions.Config{Rows: definitionstest.NewRows()})
	require.ErrorContains(t, err, "Store is missing")
	_, err = definitions.New(definitions.Config{Store: store})
	require.ErrorContains(t, err, "Rows is missing")
}

func TestBeginRunIsIdempotent(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), "")
	_, err := b.store.Put(agent.WorkflowKey{Tenant: "acme", Owner: "default", Tag: "main"}, node(agent.WorkflowTimer, `{"duration":"1s"}`))
	require.NoError(t, err)
	const request = `{"workflow_tag":"main","run_id":"r1","context":{"tenant":"acme"}}`
	out, err := b.BeginRun(t.Context(), []byte(request), definitions.BeginRunInput{WorkflowID: "w1", RunID: "x"})
	require.NoError(t, err)
	require.Equal(t, int64(1), out.Run.Version, "the version of the first request")
	require.Equal(t, core.Version, out.CoreVersion)

	out, err = b.BeginRun(t.Context(), []byte(request), definitions.BeginRunInput{WorkflowID: "w2", RunID: "x"})
	require.NoError(t, err)
	require.Equal(t, "run_id", out.Refusal.Field, "another execution uses the run ID")

	out, err = b.BeginRun(t.Context(), []byte(`{"workflow_tag":"other","run_id":"r1","context":{"tenant":"acme"}}`), definitions.BeginRunInput{WorkflowID: "w1"})
	require.NoError(t, err)
	require.Equal(t, "run_id", out.Refusal.Field)

	b.store.Broken = func(string) error { return agent.Errorf(agent.CodeUnavailable, "", "away") }
	_, err = b.BeginRun(t.Context(), []byte(request), definitions.BeginRunInput{WorkflowID: "w1"})
	require.ErrorContains(t, err, "away")
}

func TestRunInputLimit(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), "")
	raw, err := json.Marshal(agent.RunRequest{Tag: "main", Input: json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)})
	require.NoError(t, err)
	out, err := b.BeginRun(t.Context(), raw, definitions.BeginRunInput{WorkflowID: "w", RunID: "y"})
	require.NoError(t, err)
	require.Equal(t, "overflow", out.Refusal.Type)
	require.Equal(t, "input", out.Refusal.Field)
}

func TestAgentNodes(t *testing.T) {
	b := newBench(t, node(agent.WorkflowAgent, `{"agent":"analyst","message":"Compare {{a}}","session":"s-{{run.run_id}}","output_schema":{"type":"object"}}`), `{"a":"b"}`)
	in := definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1}
	first, err := b.BeginAgentNode(t.Context(), in)
	require.NoError(t, err)
	again, err := b.BeginAgentNode(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first, again, "the turn ID depends on the visit only")
	turn := b.world.Turns()[0]
	require.Equal(t, agent.TurnRequest{
		TurnID: first.Turn, Agent: "analyst", Message: "Compare b", SessionID: "s-r1", OutputSchema: json.RawMessage(`{"type":"object"}`),
		Channel: "workflow", Context: agent.InvocationContext{Tenant: "acme", UserID: "u1"},
	}, turn)
	other, err := b.BeginAgentNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: "n", Visit: 2})
	require.NoError(t, err)
	require.NotEqual(t, first.Turn, other.Turn)

	b.world.Result = func(id agent.TurnID) (agent.AgentStepOutput, error) {
		return agent.AgentStepOutput{
			TurnID: id, Agent: "analyst", Status: agent.TurnCompleted, Output: "ok", Structured: json.RawMessage("null"),
			ResultRef: "artifact://1", ResultPreview: json.RawMessage(`{"row_count":3}`),
		}, nil
	}
	out, err := b.StoreAgentNode(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, definitions.NodeResult{}, out)
	s := b.step("n")
	require.Equal(t, first.Turn, s.TurnID)
	require.Equal(t, "artifact://1", s.Ref)
	require.JSONEq(t, fmt.Sprintf(`{"agent":"analyst","output":"ok","ref":"artifact://1","preview":{"row_count":3},"turn_id":%q}`, first.Turn), string(s.Output))

	b.world.Result = func(agent.TurnID) (agent.AgentStepOutput, error) { return agent.AgentStepOutput{}, errors.New("away") }
	_, err = b.StoreAgentNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: "n", Visit: 2})
	require.ErrorContains(t, err, "away")
	b.world.OnTurn = func(agent.TurnRequest) error { return agent.Errorf(agent.CodeUnavailable, "", "away") }
	_, err = b.BeginAgentNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: "n", Visit: 3})
	require.ErrorContains(t, err, "away", "Temporal tries again")
}

func TestCancelWhileSending(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"A","price":1}`)
	ctx, cancel := context.WithCancel(t.Context())
	b.world.OnMail = func(_ notifications.Mail, mark func() error) error {
		require.NoError(t, mark())
		cancel()
		return fmt.Errorf("cut: %w", notifications.ErrUnknown)
	}
	out, err := b.RunNode(ctx, definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
	require.NoError(t, err, "the outcome is stored although the worker stops")
	require.Equal(t, agent.OutcomeUnknown, out.Failure.Type)
}

func TestCancelBeforeSending(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"A","price":1}`)
	ctx, cancel := context.WithCancel(t.Context())
	b.world.OnMail = func(notifications.Mail, func() error) error {
		cancel()
		return agent.Errorf(agent.CodeUnavailable, "", "cut while connecting")
	}
	_, err := b.RunNode(ctx, definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
	require.Error(t, err)
	b.world.OnMail = nil
	require.Nil(t, b.visit("n").Failure)
	require.Len(t, b.world.Mails(), 1)
}
