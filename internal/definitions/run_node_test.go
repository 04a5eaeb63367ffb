package definitions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// bench executes single visits of a run.
type bench struct {
	*definitions.Runner

	t     *testing.T
	store *definitionstest.Store
	rows  *definitionstest.Rows
	world *definitionstest.World
}

func newBench(t *testing.T, def agent.WorkflowDefinition, input string) *bench {
	t.Helper()
	b := &bench{t: t, store: definitionstest.NewStore(), rows: definitionstest.NewRows(), world: &definitionstest.World{}}
	var err error
	b.Runner, err = definitions.New(definitions.Config{
		Store: b.store, Rows: b.rows, Turns: definitionstest.Turns{World: b.world}, Mailer: definitionstest.Mailer{World: b.world},
		Webhooks: definitionstest.Webhooks{World: b.world}, Pipelines: definitionstest.Pipelines{World: b.world}, RetryPause: time.Millisecond,
	})
	require.NoError(t, err)
	_, err = b.store.Put(agent.WorkflowKey{Tenant: "acme", Owner: "default", Tag: "main"}, def)
	require.NoError(t, err)
	req := agent.RunRequest{RunID: "r1", Tag: "main", Context: agent.InvocationContext{Tenant: "acme", UserID: "u1"}}
	if input != "" {
		req.Input = json.RawMessage(input)
	}
	raw, err := json.Marshal(req)
	require.NoError(t, err)
	out, err := b.BeginRun(t.Context(), raw, definitions.BeginRunInput{WorkflowID: "w1", RunID: "x"})
	require.NoError(t, err)
	require.Nil(t, out.Refusal)
	return b
}

func node(kind, config string) agent.WorkflowDefinition {
	return agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{{ID: "n", Name: "The node", Type: kind, Config: json.RawMessage(config)}}}
}

func (b *bench) visit(id string, from ...core.Source) definitions.NodeResult {
	b.t.Helper()
	out, err := b.RunNode(b.t.Context(), definitions.NodeInput{RunID: "r1", Node: id, Visit: 1, From: from})
	require.NoError(b.t, err)
	return out
}

func (b *bench) step(id string) agent.RunStep {
	b.t.Helper()
	s, ok, err := b.store.Step(b.t.Context(), "r1", id, 1)
	require.NoError(b.t, err)
	require.True(b.t, ok)
	return s
}

func (b *bench) put(rows string) string {
	b.t.Helper()
	ref, err := b.rows.Put(b.t.Context(), "acme", strings.NewReader(rows))
	require.NoError(b.t, err)
	return ref
}

const mailConfig = `{"action":"email","to":["a@example.com","b@example.com"],"subject":"{{flight}} now","body":"{{price}} for {{run.workflow_tag}}"}`

func TestEmail(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"AA\n1","price":450}`)
	require.Nil(t, b.visit("n").Failure)
	require.Nil(t, b.visit("n").Failure, "the stored result is returned")
	mails := b.world.Mails()
	require.Len(t, mails, 1)
	require.Equal(t, []string{"a@example.com", "b@example.com"}, mails[0].To)
	require.Equal(t, "AA 1 now", mails[0].Subject)
	require.Equal(t, "450 for main", mails[0].Body)
	require.NotEmpty(t, mails[0].ID)
	require.JSONEq(t, fmt.Sprintf(`{"action":"email","to":["a@example.com","b@example.com"],"subject":"AA 1 now","id":%q}`, mails[0].ID), string(b.step("n").Output))
}

func TestEmailDefaultsToInputTable(t *testing.T) {
	var rows []string
	for i := range 60 {
		rows = append(rows, fmt.Sprintf(`{"flight":"F%d","price":%d.50,"note":null}`, i, i))
	}
	b := newBench(t, node(agent.WorkflowTask, `{"action":"email"}`), "["+strings.Join(rows, ",")+"]")
	require.Nil(t, b.visit("n").Failure)
	m := b.world.Mails()[0]
	require.Equal(t, "main: The node", m.Subject)
	require.Contains(t, m.Body, "flight  note  price\nF0      -     0.50\n")
	require.Contains(t, m.Body, "F49")
	require.NotContains(t, m.Body, "F50")
	require.Contains(t, m.Body, "… and 10 more rows")
}

func TestInvalidConfigFailsTheNode(t *testing.T) {
	for name, c := range map[string]struct{ config, field string }{
		"a bad template":   {`{"action":"email","subject":"{{1 +}}"}`, "config.subject"},
		"a bad expression": {`{"action":"email","body":"{{price * 'x'}}"}`, "config.body"},
		"no text":          {`{"action":"email","body":{"a":1}}`, "config.body"},
		"a missing member": {`{"action":"webhook","url":"https://example.com/{{nothing}}"}`, "config.url"},
		"an action":        {`{"action":"slack"}`, "config.action"},
	} {
		b := newBench(t, node(agent.WorkflowTask, c.config), `{"price":1}`)
		out := b.visit("n")
		require.NotNil(t, out.Failure, name)
		require.Equal(t, c.field, out.Failure.Field, name)
		require.Equal(t, "n", out.Failure.Step)
		require.Equal(t, agent.RunFailed, b.step("n").Status)
	}
}

// An attempt without an effect is repeated; an attempt that may have had an effect is not.
func TestEmailAttempts(t *testing.T) {
	away := agent.Errorf(agent.CodeUnavailable, "", "away")
	for name, c := range map[string]struct {
		errs []error // of the first attempts; later attempts succeed
		mark []bool  // whether the attempt calls mark before it fails
		want string  // the type of the failure; "": the node succeeds
		sent int
		try  int
	}{
		"at once":                  {want: "", sent: 1, try: 1},
		"away before the mark":     {errs: []error{away, away}, mark: []bool{false, false}, sent: 1, try: 3},
		"refused after the mark":   {errs: []error{away}, mark: []bool{true}, sent: 1, try: 2},
		"away for too long":        {errs: []error{away, away, away, away}, mark: make([]bool, 4), want: "unavailable", try: 4},
		"refused for good":         {errs: []error{agent.Invalid("to[0]", "no")}, mark: []bool{false}, want: "invalid", try: 1},
		"cut off after the mark":   {errs: []error{fmt.Errorf("gone: %w", notifications.ErrUnknown)}, mark: []bool{true}, want: agent.OutcomeUnknown, try: 1},
		"an error nobody knows of": {errs: []error{errors.New("what")}, mark: []bool{false}, want: "internal", try: 1},
		"asked to come back later": {errs: []error{&agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Millisecond, Err: away}}, mark: []bool{true}, sent: 1, try: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"A","price":1}`)
			tries := 0
			b.world.OnMail = func(_ notifications.Mail, mark func() error) error {
				tries++
				if tries > len(c.errs) {
					return mark()
				}
				if c.mark[tries-1] {
					require.NoError(t, mark())
				}
				return c.errs[tries-1]
			}
			out := b.visit("n")
			require.Equal(t, c.try, tries)
			require.Len(t, b.world.Mails(), c.sent)
			if c.want == "" {
				require.Nil(t, out.Failure)
				return
			}
			require.Equal(t, c.want, out.Failure.Type)
		})
	}
}

func TestMarkedAttemptIsNotRepeated(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"A","price":1}`)
	_, err := b.store.Attempt(t.Context(), "r1", "n", 1)
	require.NoError(t, err)
	require.Equal(t, agent.OutcomeUnknown, b.visit("n").Failure.Type)
	require.Empty(t, b.world.Mails())
}

// Temporal retries errors of the store. Nothing is sent unless the attempt could be marked.
func TestStoreErrorsAreRetried(t *testing.T) {
	for _, call := range []string{"Step", "Attempt", "SaveStep"} {
		b := newBench(t, node(agent.WorkflowTask, mailConfig), `{"flight":"A","price":1}`)
		b.store.Broken = func(c string) error {
			if c == call {
				return agent.Errorf(agent.CodeUnavailable, "", "the store is away")
			}
			return nil
		}
		_, err := b.RunNode(t.Context(), definitions.NodeInput{RunID: "r1", Node: "n", Visit: 1})
		require.ErrorContains(t, err, "the store is away", call)
		sent := 0
		if call == "SaveStep" {
			sent = 1
		}
		require.Len(t, b.world.Mails(), sent, call)
		b.store.Broken = nil
		out := b.visit("n")
		if call == "SaveStep" { // it was sent, but the result was not stored
			require.Equal(t, agent.OutcomeUnknown, out.Failure.Type)
			require.Len(t, b.world.Mails(), 1)
		} else {
			require.Nil(t, out.Failure, call)
		}
	}
}

func TestWebhookAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		config  string
		answers []int // of the first attempts; later attempts get 200
		unknown bool  // the first attempt gets no answer
		want    string
		tries   int
	}{
		"at once":                        {config: `{}`, tries: 1},
		"busy":                           {config: `{}`, answers: []int{429, 503}, tries: 3},
		"a bad gateway may have done it": {config: `{}`, answers: []int{502}, want: agent.OutcomeUnknown, tries: 1},
		"repeatable":                     {config: `{"repeatable":true}`, answers: []int{502, 500}, tries: 3},
		"PUT is":                         {config: `{"method":"put"}`, answers: []int{504}, tries: 2},
		"GET is":                         {config: `{"method":"GET"}`, unknown: true, tries: 2},
		"no answer":                      {config: `{}`, unknown: true, want: agent.OutcomeUnknown, tries: 1},
		"repeatable but away for ever":   {config: `{"repeatable":true,"retries":{"max_attempts":2}}`, answers: []int{500, 500, 500}, want: "unavailable", tries: 2},
		"not found":                      {config: `{}`, answers: []int{404}, want: "invalid", tries: 1},
		"not allowed":                    {config: `{}`, answers: []int{403}, want: "denied", tries: 1},
		"moved":                          {config: `{}`, answers: []int{307}, want: "invalid", tries: 1},
		"found":                          {config: `{}`, answers: []int{302}, want: "invalid", tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var config map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.config), &config))
			config["action"], config["url"] = "webhook", "https://example.com/{{flight}}"
			raw, err := json.Marshal(config)
			require.NoError(t, err)
			b := newBench(t, node(agent.WorkflowTask, string(raw)), `{"flight":"A 1"}`)
			tries, keys := 0, map[string]bool{}
			b.world.OnHook = func(w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error) {
				tries++
				keys[w.Key] = true
				require.Equal(t, "https://example.com/A%201", w.URL)
				if err := mark(); err != nil {
					return notifications.WebhookAnswer{}, err
				}
				if c.unknown && tries == 1 {
					return notifications.WebhookAnswer{}, fmt.Errorf("no answer: %w", notifications.ErrUnknown)
				}
				if tries <= len(c.answers) {
					return notifications.WebhookAnswer{Status: c.answers[tries-1]}, nil
				}
				return notifications.WebhookAnswer{Status: 200, Body: []byte("thanks")}, nil
			}
			out := b.visit("n")
			require.Equal(t, c.tries, tries)
			require.Len(t, keys, 1, "all attempts have the same key")
			if c.want == "" {
				require.Nil(t, out.Failure)
				require.JSONEq(t, `{"status":200,"body":"thanks"}`, string(b.step("n").Output))
				return
			}
			require.Equal(t, c.want, out.Failure.Type)
		})
	}
}

func TestWebhookBodies(t *testing.T) {
	for config, want := range map[string]struct{ body, kind string }{
		`{}`:                            {`{"workflow_tag":"main","run_id":"r1","node_id":"n","visit":1,"input":{"price":450}}`, "application/json"},
		`{"body":null}`:                 {`{"workflow_tag":"main","run_id":"r1","node_id":"n","visit":1,"input":{"price":450}}`, "application/json"},
		`{"body":"costs {{price}}"}`:    {"costs 450", "text/plain; charset=utf-8"},
		`{"body":{"text":"{{price}}"}}`: {`{"text":"{{price}}"}`, "application/json"},
		`{"body":"a=1","headers":{"content-type":"application/x-www-form-urlencoded"}}`: {"a=1", "application/x-www-form-urlencoded"},
		`{"method":"GET"}`: {"", ""},
	} {
		full := strings.Replace(config, "{", `{"action":"webhook","url":"https://example.com",`, 1)
		full = strings.Replace(full, ",}", "}", 1)
		b := newBench(t, node(agent.WorkflowTask, full), `{"price":450}`)
		require.Nil(t, b.visit("n").Failure, config)
		hook := b.world.Hooks()[0]
		require.Equal(t, want.body, string(hook.Body), config)
		kind := hook.Header["Content-Type"]
		if kind == "" {
			kind = hook.Header["content-type"]
		}
		require.Equal(t, want.kind, kind, config)
	}
}

func pipelineThenCheck(expression string) agent.WorkflowDefinition {
	return agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "fetch", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"pipeline","pipeline":[{"step":"http_request"}]}`)},
			{ID: "check", Type: agent.WorkflowCondition, Expr: expression},
			{ID: "mail", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"email"}`)},
		},
		Edges: []agent.WorkflowEdge{{From: "fetch", To: "check"}, {From: "check", To: "mail"}},
	}
}
