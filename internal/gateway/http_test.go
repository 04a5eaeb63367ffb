package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/job"
)

// testGateway is a gateway on loopback ports with fake ports.
type testGateway struct {
	*gateway.Gateway

	rt      *gatewaytest.Runtime
	catalog *gatewaytest.Catalog
	url     string
	t       *testing.T
}

func startGateway(t *testing.T, change func(*gateway.Config)) *testGateway {
	t.Helper()
	rt, catalog := gatewaytest.New(), &gatewaytest.Catalog{}
	cfg := gateway.Config{GRPCAddr: "127.0.0.1:0", Ports: gatewaytest.Ports(rt, catalog), Version: "test"}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.Serve(t, cfg)
	return &testGateway{Gateway: g, rt: rt, catalog: catalog, url: "http://" + g.HTTPAddr(), t: t}
}

// answerWith returns a script that ends every turn with text.
func answerWith(text string) func(*gatewaytest.Runtime, agent.TurnID, agent.TurnRequest) {
	return func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, text) }
}

// lastSubmitted returns the envelope that was submitted last.
func (d *testGateway) lastSubmitted() agent.Envelope {
	all := d.rt.Submitted()
	return all[len(all)-1]
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (d *testGateway) send(method, path, body string, header ...string) answer {
	d.t.Helper()
	status, answered, data := gatewaytest.Send(d.t, method, d.url+path, body, header...)
	return answer{status, answered, data}
}

// sendAs is send with an API key, unless key is empty.
func (d *testGateway) sendAs(key, method, path, body string, header ...string) answer {
	d.t.Helper()
	if key != "" {
		header = append(header, "X-Api-Key", key)
	}
	return d.send(method, path, body, header...)
}

// json returns the body as an object, nil without a body.
func (a answer) json() map[string]any {
	var object map[string]any
	_ = json.Unmarshal(a.body, &object) // nil without a body
	return object
}

// fault returns the type and the field of an error.
func (a answer) fault(t *testing.T) string {
	t.Helper()
	f := a.failure(t)
	return f.Type + " " + f.Field
}

func (a answer) failure(t *testing.T) agent.Failure {
	t.Helper()
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	var body struct {
		Error *agent.Failure `json:"error"`
	}
	require.NoError(t, json.Unmarshal(a.body, &body), "%s", a.body)
	require.NotNil(t, body.Error, "%s", a.body)
	return *body.Error
}

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

func TestPostTurnWaitsForTheResult(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("here are three flights")
	a := d.send("POST", "/v1/turns", `{"agent":"analyst","message":"fetch flights","session_id":"s1","context":{"tenant":"acme"}}`,
		"Idempotency-Key", "k1", "Content-Type", "application/json; charset=utf-8")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Turn-Id"))
	require.Equal(t, "/v1/turns/turn-1", a.header.Get("Location"))
	require.NotEmpty(t, a.header.Get("X-Request-Id"))

	// Every field of the output is present, and lists are not null.
	fields := decode[map[string]json.RawMessage](t, a)
	for _, name := range []string{
		"turn_id", "session_id", "agent", "agent_instance_id", "status", "output", "blocks", "structured", "result_ref",
		"result_preview", "tool_calls", "usage", "stop_reason", "error", "stream_id", "execution_time_ms", "model",
	} {
		require.Contains(t, fields, name)
	}
	require.JSONEq(t, `[]`, string(fields["tool_calls"]))
	out := decode[agent.AgentStepOutput](t, a)
	require.Equal(t, "here are three flights", out.Output)
	require.Equal(t, agent.TurnCompleted, out.Status)

	e := d.rt.Submitted()[0]
	require.Equal(t, "http", e.Channel)
	require.Equal(t, "http", e.Request.Channel)
	require.Equal(t, "acme", e.Request.Context.Tenant)
	require.Equal(t, "k1", e.Request.IdempotencyKey)

	// A request with the same key joins the turn.
	again := d.send("POST", "/v1/turns", `{"message":"fetch flights"}`, "Idempotency-Key", "k1", "Turnstone-Tenant", "acme")
	require.Equal(t, string(a.body), string(again.body))
}

// A request that waits for its turn, or for its job, gets the output of the turn, or status 202 if the turn waits or is not over in time.
func TestPostTurnEndsAndStates(t *testing.T) {
	approval := &agent.Approval{ApprovalID: "a1", TurnID: "turn-1", CallID: "c1", ToolName: "send_mail", Args: json.RawMessage(`{"to":"x"}`)}
	cases := map[string]struct {
		script  func(rt *gatewaytest.Runtime, id agent.TurnID)
		status  int
		turn    string // within the response to POST /v1/turns
		testJob string // within the response to POST /test/chat
	}{
		"failed": {
			func(rt *gatewaytest.Runtime, id agent.TurnID) { rt.Finish(id, agent.TurnFailed, "") }, 200, `"status":"failed"`, `"type":"model_error"`,
		},
		"cancelled": {
			func(rt *gatewaytest.Runtime, id agent.TurnID) { rt.Finish(id, agent.TurnCancelled, "") }, 200, `"status":"cancelled"`, `"type":"cancelled"`,
		},
		"waits for a person": {
			func(rt *gatewaytest.Runtime, id agent.TurnID) {
				rt.Emit(id, gatewaytest.Status(agent.StatusRunning),
					agent.Event{Type: agent.EventApprovalRequested, Approval: approval}, gatewaytest.Status(agent.StatusWaiting))
			}, 202, `"state":"waiting","status":"waiting","pending":[{"approval_id":"a1"`, `"approval_id":"a1"`,
		},
		"waits in line, then runs": {
			func(rt *gatewaytest.Runtime, id agent.TurnID) {
				rt.Emit(id, gatewaytest.Status(agent.StatusWaiting))
				rt.Say(id, "done")
			}, 200, `"output":"done"`, `"output":"done"`,
		},
		"was approved before it waited": {
			func(rt *gatewaytest.Runtime, id agent.TurnID) {
				rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: approval},
					agent.Event{Type: agent.EventApprovalResolved, Approval: approval}, gatewaytest.Status(agent.StatusWaiting))
				rt.Say(id, "sent")
			}, 200, `"output":"sent"`, `"output":"sent"`,
		},
		"not over in time": {func(*gatewaytest.Runtime, agent.TurnID) {}, 202, `"state":"running"`, `"state":"running"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := startGateway(t, func(cfg *gateway.Config) { cfg.Limits.WaitTimeout = 300 * time.Millisecond })
			d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { c.script(rt, id) }
			a := d.send("POST", "/v1/turns", `{"message":"x"}`)
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Contains(t, string(a.body), c.turn)
			a = d.send("POST", "/test/chat", `{"prompt":"go","job_id":"x"}`)
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Contains(t, string(a.body), c.testJob)
			require.Contains(t, string(a.body), `"job_id":"x"`)
			require.Contains(t, string(a.body), `"turn_id":"job-x"`)
			require.Equal(t, "job-x", a.header.Get("Turnstone-Turn-Id"))
			if strings.Contains(c.testJob, "type") {
				require.Equal(t, job.StatusFailed, decode[job.Result](t, a).Status)
			}
		})
	}
}

func TestRepeatedRequestIgnoresPausesOfThePast(t *testing.T) {
	d := startGateway(t, nil)
	approval := &agent.Approval{ApprovalID: "a1", ToolName: "send_mail"}
	a := d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t"}`)
	require.Equal(t, 202, a.status)
	require.JSONEq(t, `{"turn_id":"t","session_id":"t","stream_id":"t"}`, string(a.body))
	d.rt.Emit("t", gatewaytest.Status(agent.StatusRunning), agent.Event{Type: agent.EventApprovalRequested, Approval: approval},
		gatewaytest.Status(agent.StatusWaiting), agent.Event{Type: agent.EventApprovalResolved, Approval: approval},
		gatewaytest.Status(agent.StatusRunning))
	got := make(chan answer, 1)
	go func() { got <- d.send("POST", "/v1/turns", `{"message":"x","turn_id":"t"}`) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 5*time.Second, time.Millisecond)
	d.rt.Finish("t", agent.TurnCompleted, "sent")
	require.Equal(t, 200, (<-got).status)
}

func TestRequestIDs(t *testing.T) {
	d := startGateway(t, nil)
	require.Equal(t, "mine-1", d.send("GET", "/health", "", "X-Request-Id", "mine-1").header.Get("X-Request-Id"))
	got := d.send("GET", "/health", "", "X-Request-Id", `"><script>`).header.Get("X-Request-Id")
	require.NotContains(t, got, "script")
	require.NotEmpty(t, got)
}

func TestPanicIsAnInternalError(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Refuse = func(agent.Envelope) error { panic("secret") }
	f := d.send("POST", "/v1/turns", `{"message":"x"}`).failure(t)
	require.Equal(t, "internal", f.Type)
	require.NotContains(t, f.Message, "secret")
	require.Equal(t, 200, d.send("GET", "/health", "").status)
}

func TestConfigFaultsAreListed(t *testing.T) {
	_, err := gateway.New(gateway.Config{AllowedOrigins: []string{"example.com"}})
	require.ErrorContains(t, err, "turns")
	require.ErrorContains(t, err, "documents")
	require.ErrorContains(t, err, "address")
	require.ErrorContains(t, err, "example.com")
	g, err := gateway.New(gateway.Config{Ports: gatewaytest.Ports(gatewaytest.New(), &gatewaytest.Catalog{}), HTTPAddr: "127.0.0.1:0", GRPCAddr: "256.0.0.1:0"})
	require.NoError(t, err)
	require.ErrorContains(t, g.Start(t.Context()), "gRPC")

	for name, change := range map[string]func(*gateway.Config){
		"origins":      func(c *gateway.Config) { c.CodecOrigins = []string{"https://*.example.com"} },
		"pigeon":       func(c *gateway.Config) { c.LinkChannels = []gateway.LinkChannel{{Name: "pigeon"}, {Name: "pigeon"}} },
		"a b":          func(c *gateway.Config) { c.LinkChannels = []gateway.LinkChannel{{Name: "a b"}} },
		"schedule pla": func(c *gateway.Config) { c.Schedules = &gatewaytest.Schedules{} },
	} {
		cfg := gateway.Config{Ports: gatewaytest.Ports(gatewaytest.New(), &gatewaytest.Catalog{}), HTTPAddr: "127.0.0.1:0"}
		change(&cfg)
		_, err := gateway.New(cfg)
		require.ErrorContains(t, err, name)
	}
}
