package apidoc_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// planHash is a plan's.
const planHash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// rich is an approval with everything that one may say.
func rich() *agent.Approval {
	at := gatewaytest.Epoch()
	return &agent.Approval{
		ApprovalID: "a1", TurnID: "waits", CallID: "c1", Step: 1, ToolName: "pay", Args: json.RawMessage(`{"sum":3}`), Rule: "always",
		Description: "pay 3 USD", Allowed: []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject}, ExpiresAt: &at, OnExpiry: agent.ExpiryReject,
		Remember: agent.RememberCall,
	}
}

// finish ends a turn with a result as the runtime makes it: its lists are never null.
func finish(rt *gatewaytest.Runtime, id agent.TurnID, status agent.TurnStatus, text string) {
	out := rt.Output(id, status, text)
	out.ToolCalls = []agent.ToolCallNote{{
		ID: "c1", Tool: "find", Status: agent.ResultSuccess, Ref: "cas://x", CacheHit: true,
		Input: json.RawMessage(`{"q":1}`), Output: json.RawMessage(`"x"`), Truncated: true,
	}}
	out.ResultPreview = json.RawMessage(`{"type":"dataset","row_count":1,"sample":[{"a":null}]}`)
	rt.Store(string(id), []byte(`{"output":"`+text+`"}`))
	rt.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(status), Reason: string(out.StopReason), Result: out})
}

// script plays a turn by its message.
func script(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
	switch r.Message {
	case "wait":
		rt.Emit(id, gatewaytest.Status(agent.StatusRunning),
			agent.Event{Type: agent.EventApprovalRequested, Approval: rich()},
			agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "approval"})
	case "fail":
		finish(rt, id, agent.TurnFailed, "")
	case "stay":
	case "rich":
		decided := rich()
		decided.Decision, decided.By, decided.Remembered, decided.DecidedArgs = agent.DecisionEdit, "ops", true, json.RawMessage(`{"sum":2}`)
		from, to := 0, 4
		rt.Emit(id, gatewaytest.Status(agent.StatusRunning),
			agent.Event{Type: agent.EventRoute, Route: json.RawMessage(`{"agent":"analyst"}`)},
			agent.Event{Type: agent.EventToolStart, ToolCallID: "c1", ToolName: "find", Input: json.RawMessage(`{"q":null}`), SourceNodeName: "n", IsFromToolkit: true},
			agent.Event{Type: agent.EventToolProgress, ToolCallID: "c1", ToolName: "find", Text: "half"},
			agent.Event{Type: agent.EventToolEnd, ToolCallID: "c1", ToolName: "find", Output: json.RawMessage(`null`), Ref: "cas://x", Failed: true},
			agent.Event{Type: agent.EventApprovalRequested, Approval: rich()},
			agent.Event{Type: agent.EventApprovalResolved, Approval: decided},
			agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{
				{Type: agent.BlockImage, URL: "https://example.com/x.png", MIMEType: "image/png"},
				{Type: agent.BlockText, Text: "said", Annotations: []agent.Annotation{{Type: "citation", Title: "t", StartIndex: &from, EndIndex: &to}}},
				{Type: agent.BlockToolResult, ToolCallID: "c1", Status: agent.ResultSuccess, Output: json.RawMessage(`[1]`)},
			}},
			agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 2},
			agent.Event{Type: agent.EventUsage, Usage: &agent.Usage{InputTokens: 1}, Model: "small"},
		)
		rt.Emit(id, gatewaytest.Token("found it"))
		finish(rt, id, agent.TurnCompleted, "found it")
	default:
		rt.Emit(id, gatewaytest.Status(agent.StatusRunning), gatewaytest.Token("hello "), gatewaytest.Token("there"))
		finish(rt, id, agent.TurnCompleted, "hello there")
	}
}

// furnish fills the server with what the exchanges below ask for.
func furnish(t *testing.T, c *checked) {
	t.Helper()
	tool := agent.ToolInfo{Name: "find", Parameters: json.RawMessage(`{"type":"object"}`), Approval: agent.ApproveDefault}
	c.catalog.AgentList = []agent.AgentInfo{{
		Name: "analyst", Tenant: agent.SharedTenant, PlanHash: planHash, Models: []string{"small", "large"}, Tools: []agent.ToolInfo{tool},
		Limits: agent.Limits{Iterations: 3, Tools: []string{"find*"}}, Source: agent.SourceConfig,
	}}
	c.catalog.NodeList = []agent.NodeInfo{{NodeID: "agent", Version: "1", Type: agent.NodeAgent, Tools: []agent.ToolInfo{tool}, Source: agent.SourceBuiltin}}
	c.catalog.Plans = map[string][]byte{planHash: []byte(`{"agent":"analyst"}`)}
	c.catalog.Sources = []agent.SourceStatus{{Name: "store", OK: false, Faults: []agent.Fault{{File: "x.yaml", Line: 3, Message: "no"}}, At: gatewaytest.Epoch()}}
	c.catalog.Decide = func(r agent.RouteContext) (agent.RouteDecision, error) {
		if r.Agent == "nobody" {
			return agent.RouteDecision{}, agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", r.Agent)
		}
		return agent.RouteDecision{
			Agent: "analyst", Reason: agent.RouteRuled, Table: "default/main", Rule: "r", Mismatch: true, Expected: "x", Revision: 1,
			Rules: []agent.RuleVerdict{{Table: "default/main", Rule: "r", Matched: true, Chosen: true, Reason: "page", Agent: "analyst", Model: "small"}},
		}, nil
	}
	c.catalog.Refuse = func(r agent.ApplyRequest) error {
		if r.Comment == "bad" {
			return agent.Faults{{File: "documents[0]", Line: 1, Column: 2, Document: "AgentInstance default/x", Path: "models", Message: "unknown field"}}.Err()
		}
		return nil
	}
	c.rt.Script = script
	c.rt.Collections = []string{"handbook"}
	c.rt.Promoted = []agent.Composite{{
		ID: "c1", Tenant: agent.DefaultTenant, Name: "cheap", Parameters: json.RawMessage(`{"type":"object"}`), Pipeline: json.RawMessage(`[]`), Enabled: true,
	}}
	c.rt.Examine = func(_ context.Context, _, profile string, report func(gateway.DoctorCheck)) error {
		if profile == "unknown" {
			return agent.FieldErrorf(agent.CodeNotFound, "model", "there is no model %q", profile)
		}
		report(gateway.DoctorCheck{Name: "calls a tool", Rule: "native", OK: true, TookMS: 1.5})
		if profile == "broken" {
			return agent.Errorf(agent.CodeUnavailable, "", "the provider is away")
		}
		return nil
	}
	c.rt.Decided = func(_ agent.TurnID, d agent.Decision) error {
		if d.ApprovalID == "twice" {
			return agent.Errorf(agent.CodeConflict, "", "approval twice is decided already")
		}
		return nil
	}
	c.rt.Refuse = func(e agent.Envelope) error {
		switch e.Request.Message {
		case "busy":
			return agent.Errorf(agent.CodeConflict, "", "the session is at work")
		case "many":
			return agent.Errorf(agent.CodeRateLimited, "", "too many turns at once")
		case "down":
			return agent.Errorf(agent.CodeUnavailable, "", "Temporal is away")
		case "bug":
			return context.Canceled // whatever it is, it is nobody's error but ours
		case "broken":
			return agent.Errorf(agent.CodeInternal, "", "a secret")
		}
		return nil
	}
	c.rt.StoreRows(agent.DefaultTenant, "rows", `[{"id":1,"name":"a"},{"id":2,"name":null}]`)
}

// So are the answers of a server that has API keys and chats switched off.
func TestSwitchedOffIsDescribed(t *testing.T) {
	c := openChecked(t, func(p *gateway.Ports) { p.Keys, p.Links, p.LinkChannels = nil, nil, nil })
	for _, e := range []exchange{
		{method: "GET", path: "/v1/keys", status: 404, contains: "auth.keys"},
		{method: "POST", path: "/v1/keys", body: `{"name":"k"}`, status: 404},
		{method: "GET", path: "/v1/links", status: 404, contains: "telegram.token"},
		{method: "POST", path: "/v1/links", body: `{"channel":"telegram","user_id":"ann"}`, status: 404},
	} {
		c.do(t, e)
	}
}

// Real requests and answers of every operation are what the document says.
func TestAnswersAreAsDescribed(t *testing.T) {
	c := openChecked(t)
	furnish(t, c)
	for _, e := range slicesOf(turns(), chats(), data(), catalog(), workflows(), clock(), chatLinks(), userErasures(), sweeps(), operations()) {
		c.do(t, e)
	}
	key := agent.NewKey{}
	require.NoError(t, json.Unmarshal(c.do(t, exchange{method: "POST", path: "/v1/keys", body: `{"name":"k","subject":"ann","flags":{"beta":true},"expires_in":"1h"}`, status: 201}).body, &key))
	c.do(t, exchange{method: "POST", path: "/v1/keys/" + key.ID + "/rotate", body: `{"overlap":"1h"}`, status: 200})
	c.do(t, exchange{method: "GET", path: "/v1/keys?page_size=50", status: 200, contains: key.ID})
	c.do(t, exchange{method: "DELETE", path: "/v1/keys/" + key.ID, status: 200})
	c.do(t, exchange{
		method: "GET", path: "/v1/usage?group=day&user=ann&agent=analyst&model=m&channel=http&session=s&turn=t&limit=10&since=2026-11-01T00:00:00Z&until=2026-11-22T00:00:00Z",
		status: 200, contains: "rebilled_calls",
	})
	c.do(t, exchange{method: "GET", path: "/v1/audit?outcome=allowed&since=2020-01-01T00:00:00Z", status: 200, contains: "keys.write"})
	c.sweeps.Status = retention.Status{}
	c.do(t, exchange{method: "POST", path: "/v1/retention/pause", status: 409})
	c.followCatalog(t)
	c.rt.Break("postgres")
	c.do(t, exchange{method: "GET", path: "/health", status: 503, contains: `"status":"failing"`})
	c.requireAll(t)
}

func slicesOf(all ...[]exchange) (joined []exchange) {
	for _, part := range all {
		joined = append(joined, part...)
	}
	return joined
}

func turns() []exchange {
	return []exchange{
		{method: "POST", path: "/v1/turns", body: `{"message":"hello","turn_id":"t1","session_id":"s1","limits":{"tokens":9}}`, status: 200, contains: "hello there"},
		{method: "POST", path: "/v1/turns", body: `{"message":"fail","turn_id":"failed"}`, status: 200, contains: "the provider said no"},
		{method: "POST", path: "/v1/turns", body: `{"messages":[{"role":"user","blocks":[{"type":"text","text":"x"}]}],"context":{"flags":{"a":1}}}`, status: 200},
		{method: "POST", path: "/v1/turns?wait=false", body: `{"message":"stay","turn_id":"stays"}`, header: []string{"Idempotency-Key", "k1"}, status: 202},
		{method: "POST", path: "/v1/turns", body: `{"message":"wait","turn_id":"waits","session_id":"s2"}`, status: 202, contains: "pending"},
		{method: "POST", path: "/v1/turns", body: `{"message":"rich","turn_id":"rich"}`, header: []string{"Accept", "text/event-stream"}, status: 200, contains: "tool_progress"},
		{method: "POST", path: "/v1/turns", body: `{"mesage":"x"}`, status: 400, contains: "unknown field", refused: true},
		{method: "POST", path: "/v1/turns", body: `{"message":"x","mode":"fast"}`, status: 400, contains: "durable", refused: true},
		{method: "POST", path: "/v1/turns", body: `{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, status: 400, contains: "stream_to", refused: true},
		{method: "POST", path: "/v1/turns?wait=maybe", body: `{"message":"x"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/turns", body: `{"message":"x"}`, as: "nobody", status: 401},
		{method: "POST", path: "/v1/turns", body: `{"message":"x"}`, as: reader, status: 403},
		{method: "POST", path: "/v1/turns", body: `{"message":"busy"}`, status: 409},
		{method: "POST", path: "/v1/turns", body: `{"message":"` + strings.Repeat("x", 65<<10) + `"}`, status: 413},
		{method: "POST", path: "/v1/turns", body: `{"message":"many"}`, status: 429, contains: "rate_limited"},
		{method: "POST", path: "/v1/turns", body: `{"message":"broken"}`, status: 500, contains: "internal error"},
		{method: "POST", path: "/v1/turns", body: `{"message":"down"}`, status: 503, contains: `"retryable":true`},
		{method: "GET", path: "/v1/turns?status=completed&status=queued&session=s1&since=2026-11-01T00:00:00Z&limit=1", status: 200, contains: "t1"},
		{method: "GET", path: "/v1/turns?status=failed", status: 200, contains: "error_type"},
		{method: "GET", path: "/v1/turns?status=waiting", status: 200, contains: `"status":"waiting"`},
		{method: "GET", path: "/v1/turns?limit=201", status: 400, refused: true},
		{method: "GET", path: "/v1/turns", as: reader, status: 403},
		{method: "GET", path: "/v1/turns/t1", status: 200, contains: `"state":"completed"`},
		{method: "GET", path: "/v1/turns/waits", status: 200, contains: `"state":"waiting"`},
		{method: "GET", path: "/v1/turns/unknown", status: 404},
		{method: "GET", path: "/v1/turns/rich/events", status: 200, contains: "approval_resolved"},
		{method: "GET", path: "/v1/turns/t1/events?after_index=999", status: 204},
		{method: "GET", path: "/v1/turns/t1/events", header: []string{"Last-Event-ID", "one"}, status: 400, refused: true},
		{method: "POST", path: "/v1/turns", body: "hello", header: []string{"Content-Type", "text/plain"}, status: 415, refused: true},
		{method: "GET", path: "/v1/turns/t1/events", as: reader, status: 403},
		{method: "POST", path: "/v1/turns/stays/cancel", body: `{"reason":"enough"}`, status: 202},
		{method: "POST", path: "/v1/turns/stays/cancel", status: 202},
		{method: "POST", path: "/v1/turns/stays/cancel", body: `{"why":"enough"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/turns/t1/messages", body: `{"message":"more"}`, status: 202, contains: "position"},
		{method: "POST", path: "/v1/turns/failed/rerun", body: `{"from_step":2,"model":"large","turn_id":"again","session_id":"s3"}`, status: 200, contains: `"rerun_of":"failed"`},
		{method: "POST", path: "/v1/turns/t1/rerun?wait=false", body: `{"prompt":"Be brief.","context":{"ui_page":"p"},"limits":{"tokens":9}}`, status: 202, contains: `"rerun_of":"t1"`},
		{method: "POST", path: "/v1/turns/t1/rerun", header: []string{"Accept", "text/event-stream"}, status: 200, contains: "COMPLETED"},
		{method: "POST", path: "/v1/turns/stays/rerun", status: 409},
		{method: "POST", path: "/v1/turns/unknown/rerun", status: 404},
		{method: "POST", path: "/v1/turns/t1/rerun", body: `{"message":"x"}`, status: 400, contains: "unknown field", refused: true},
		{method: "GET", path: "/v1/turns/again", status: 200, contains: `"from_step":2`},
		{method: "POST", path: "/v1/turns/waits/decisions", body: `{"approval_id":"a1","decision":"approve"}`, status: 200},
		{method: "POST", path: "/v1/turns/waits/decisions", body: `{"approval_id":"twice","decision":"reject","by":"ops"}`, status: 409},
		{method: "POST", path: "/v1/turns/waits/decisions", body: `{"approval_id":"a1","decision":"maybe"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/turns/waits/decisions", body: `{"decision":"approve"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/turns/stays/results", body: `{"tool_call_id":"c1","result":[1,null]}`, status: 200},
		{method: "POST", path: "/v1/turns/stays/results", body: `{"tool_call_id":"c1"}`, status: 400},
		{method: "GET", path: "/v1/ws", status: 426},
	}
}

func chats() []exchange {
	return []exchange{
		{method: "POST", path: "/api/chat", body: `{"message":"rich","session_id":"web","chat_history":[{"role":"user","content":"hi"}]}`, status: 200},
		{method: "POST", path: "/api/chat", body: `{"message":"fail"}`, status: 200, contains: "the provider said no"},
		{method: "POST", path: "/api/chat", body: `{"message":"wait"}`, status: 202, contains: "waiting"},
		{method: "POST", path: "/api/chat", body: `{"text":"x"}`, status: 400, refused: true},
		{method: "POST", path: "/test/chat?prompt=hello", status: 200, contains: "llm_model"},
		{method: "POST", path: "/test/chat", body: `{"prompt":"hello","session_id":"j","timeout_sec":60,"later":1}`, status: 200},
		{method: "POST", path: "/test/chat", body: `{"prompt":"wait"}`, status: 202, contains: "job_id"},
		{method: "POST", path: "/test/chat", body: `{"agent":"x"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/chat/completions", body: `{"model":"analyst","messages":[{"role":"user","content":"hello"}],"temperature":1}`, status: 200, contains: "hello there"},
		{method: "POST", path: "/v1/chat/completions", body: `{"model":"analyst","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"rich"}]}`, status: 200, contains: "prompt_tokens"},
		{method: "POST", path: "/v1/chat/completions", body: `{"model":"analyst","messages":[{"role":"user","content":"hello"}],"n":2}`, status: 400, refused: true, contains: "invalid_request_error"},
		{method: "POST", path: "/v1/chat/completions", body: `{"model":"analyst","messages":[{"role":"user","content":"hello"}]}`, as: reader, status: 403, contains: "permission_error"},
		{method: "POST", path: "/v1/chat/completions", body: `{"model":"analyst","messages":[{"role":"user","content":"hello"}]}`, as: "nobody", status: 401, contains: "invalid_api_key"},
		{method: "GET", path: "/v1/models", as: "mistyped", status: 401},
		{method: "GET", path: "/v1/models", header: []string{"Origin", "https://evil.example"}, status: 403},
		{method: "GET", path: "/v1/models", status: 200, contains: "analyst:large"},
		{method: "GET", path: "/v1/models/analyst", status: 200},
		{method: "GET", path: "/v1/models/unknown", status: 404, contains: "model_not_found"},
	}
}

func data() []exchange {
	return []exchange{
		{method: "GET", path: "/v1/approvals?state=pending&page_size=1", status: 200, contains: "a1"},
		{method: "GET", path: "/v1/approvals?state=open", status: 400, refused: true},
		{method: "GET", path: "/v1/approvals?page_size=2000", status: 400, refused: true},
		{method: "GET", path: "/v1/approvals/a1", status: 200},
		{method: "GET", path: "/v1/approvals/unknown", status: 404},
		{method: "GET", path: "/v1/results/t1", status: 200, contains: "hello there"},
		{method: "GET", path: "/v1/results/unknown", status: 404},
		{method: "GET", path: "/v1/results/rows/data", status: 200},
		{method: "GET", path: "/v1/results/rows/data?format=csv&spreadsheet=true", status: 200, contains: "id,name"},
		{method: "GET", path: "/v1/results/rows/data", header: []string{"Accept", "application/x-ndjson"}, status: 200},
		{method: "GET", path: "/v1/results/rows/data?format=xml", status: 400, refused: true},
		{method: "GET", path: "/v1/sessions?text=HELLO&limit=2", status: 200, contains: "last_active_at"},
		{method: "GET", path: "/v1/sessions?limit=201", status: 400, refused: true},
		{method: "GET", path: "/v1/sessions/s1/messages?limit=1", status: 200},
		{method: "GET", path: "/v1/sessions/s1/export", status: 200},
		{method: "GET", path: "/v1/sessions/s2/export", status: 200, contains: "a1"},
		{method: "GET", path: "/v1/sessions/unknown/export", status: 404},
		{method: "POST", path: "/v1/sessions/s1/fork", body: `{"turn_id":"t1","session_id":"branch"}`, status: 201, contains: `"forked_from":"s1"`},
		{method: "POST", path: "/v1/sessions/s1/fork", status: 201},
		{method: "POST", path: "/v1/sessions/s1/fork", body: `{"session_id":"s3"}`, status: 409},
		{method: "POST", path: "/v1/sessions/s1/fork", body: `{"session_id":"a b"}`, status: 400, contains: "session_id"},
		{method: "POST", path: "/v1/sessions/s1/fork", body: `{"turn_id":"again"}`, status: 404},
		{method: "PATCH", path: "/v1/sessions/s1", body: `{"title":"Greetings"}`, status: 200, contains: `"title":"Greetings"`},
		{method: "GET", path: "/v1/sessions?text=greet&status=completed&session=s1", status: 200, contains: `"title":"Greetings"`},
		{method: "GET", path: "/v1/sessions/s1/export", status: 200, contains: `"title":"Greetings"`},
		{method: "PATCH", path: "/v1/sessions/s1", body: `{"title":null}`, status: 200, contains: `"session_id":"s1"`},
		{method: "PATCH", path: "/v1/sessions/s1", body: `{"title":"a\nb"}`, status: 400, contains: "title"},
		{method: "PATCH", path: "/v1/sessions/unknown", body: `{"title":"x"}`, status: 404},
		{method: "DELETE", path: "/v1/sessions/s2", status: 409},
		{method: "DELETE", path: "/v1/sessions/s1", status: 200},
		{
			method: "POST", path: "/v1/knowledge/handbook/documents?id=rules&title=Rules&metadata=%7B%22a%22%3A1%7D", body: "thirty days off",
			header: []string{"Content-Type", "text/plain"}, status: 200, contains: "sha256",
		},
		{method: "POST", path: "/v1/knowledge/unknown/documents", body: "x", header: []string{"Content-Type", "text/plain"}, status: 404},
		{method: "GET", path: "/v1/knowledge/handbook/documents?page_size=5", status: 200, contains: "next_page_token"},
		{method: "GET", path: "/v1/knowledge/handbook/search?q=days&top_k=2", status: 200, contains: "thirty"},
		{method: "GET", path: "/v1/knowledge/handbook/search", status: 400, refused: true},
		{method: "DELETE", path: "/v1/knowledge/handbook/documents/rules", status: 200},
		{method: "DELETE", path: "/v1/knowledge/handbook/documents/rules", status: 404},
	}
}

func catalog() []exchange {
	return []exchange{
		{method: "GET", path: "/v1/agents?tool=find&page_size=10", status: 200, contains: "analyst"},
		{method: "GET", path: "/v1/agents", as: reader, status: 200},
		{method: "GET", path: "/v1/agents?label=a%3D1&label=b%3D2", status: 200},
		{method: "GET", path: "/v1/agents", as: "nobody", status: 401},
		{method: "GET", path: "/v1/agents", as: "mistyped", status: 401},
		{method: "GET", path: "/v1/agents", as: reader, header: []string{"Turnstone-Tenant", "other"}, status: 403},
		{method: "POST", path: "/v1/routes/dry-run", body: `{"message":"x","context":{"ui_page":"/sales"}}`, status: 200, contains: `"rule":"r"`},
		{method: "POST", path: "/v1/routes/dry-run", body: `{"agent":"nobody"}`, status: 404},
		{method: "GET", path: "/v1/catalog/agents", status: 200},
		{method: "GET", path: "/v1/catalog/agents/analyst/plan", status: 200},
		{method: "GET", path: "/v1/catalog/agents/unknown/plan", status: 404},
		{method: "GET", path: "/v1/catalog/plans/" + planHash, status: 200},
		{method: "GET", path: "/v1/catalog/plans/" + planHash, header: []string{"If-None-Match", `"` + planHash + `"`}, status: 304},
		{method: "GET", path: "/v1/catalog/nodes?type=agent", status: 200},
		{method: "GET", path: "/v1/catalog/nodes?type=human", status: 400, refused: true},
		{
			method: "POST", path: "/v1/catalog/apply", status: 200, contains: "created",
			body: `{"documents":[{"kind":"AgentInstance","name":"writer","node_id":"agent","node_version":"1"}],"files":[{"name":"r.yaml","data":"kind: RouteTable\nname: main\n"}],"by":"ann"}`,
		},
		{method: "POST", path: "/v1/catalog/apply", body: `{"documents":[{"kind":"AgentInstance","name":"x"}],"comment":"bad"}`, status: 400, contains: "faults"},
		{method: "POST", path: "/v1/catalog/apply", body: `{"docs":[]}`, status: 400, refused: true},
		{
			method: "POST", path: "/v1/catalog/apply?dry_run=true&name=w.yaml", body: "kind: AgentInstance\nname: writer\nnode_id: agent\nnode_version: '2'\n",
			header: []string{"Content-Type", "application/yaml"}, status: 200, contains: `"dry_run":true`,
		},
		{method: "POST", path: "/v1/catalog/publish", body: `{"agent":"writer","by":"ann"}`, status: 200, contains: "compiled_artifact_uri"},
		{method: "POST", path: "/v1/catalog/publish", body: `{"agent":"unknown"}`, status: 404},
		{method: "GET", path: "/v1/catalog/documents?kind=AgentInstance", status: 200, contains: "writer"},
		{method: "GET", path: "/v1/catalog/documents?kind=Cat", status: 400, refused: true},
		{method: "GET", path: "/v1/catalog/documents/AgentInstance/writer", status: 200},
		{method: "GET", path: "/v1/catalog/documents/AgentInstance/unknown", status: 404},
		{method: "DELETE", path: "/v1/catalog/documents/AgentInstance/writer?by=ann&comment=old", status: 200, contains: "deleted"},
		{method: "GET", path: "/v1/catalog/history?kind=AgentInstance", status: 200, contains: "writer"},
		{method: "GET", path: "/v1/catalog/status", status: 200, contains: "x.yaml"},
		{method: "GET", path: "/v1/catalog/stream?after=x", status: 400, refused: true},
	}
}

func workflows() []exchange {
	definition := `{"description":"d","nodes":[{"id":"a","type":"condition","expr":"price < 500"},{"id":"b","type":"agent","config":{"agent":"analyst","message":"go"}}],` +
		`"edges":[{"from":"a","to":"b","condition":"true"}]}`
	return []exchange{
		{method: "PUT", path: "/v1/workflows/main", body: definition, header: []string{"If-None-Match", "*", "Idempotency-Key", "w1"}, status: 200},
		{method: "PUT", path: "/v1/workflows/main?base_version=9", body: definition, status: 409},
		{method: "PUT", path: "/v1/workflows/main", body: `[]`, status: 400, refused: true},
		{method: "GET", path: "/v1/workflows?tag=main", status: 200, contains: "patch_main_1"},
		{method: "GET", path: "/v1/workflows/main", status: 200},
		{method: "GET", path: "/v1/workflows/unknown", status: 404},
		{method: "POST", path: "/v1/workflows/main:patch", body: `{"operations":[{"op":"replace","path":"/description","value":"e"}],"by":"ann"}`, header: []string{"If-Match", `"1"`}, status: 200},
		{method: "POST", path: "/v1/workflows/main:patch", body: `{"patch_spec":{"operations":[{"op":"add","path":"/description","value":"f"}],"description":"why"}}`, status: 200},
		{method: "POST", path: "/v1/workflows/main:patch", body: `{"operations":{}}`, status: 400, refused: true},
		{method: "POST", path: "/v1/workflows/main:revert", body: `{"patch_id":"patch_main_3"}`, status: 200},
		{method: "POST", path: "/v1/workflows/main:revert", body: `{"patch_id":"unknown"}`, status: 404},
		{method: "GET", path: "/v1/workflows/main/patches", status: 200, contains: "revert_of"},
		{method: "POST", path: "/v1/workflows/main:run", body: `{"input":{"a":1},"run_id":"run-1"}`, status: 202},
		{method: "POST", path: "/v1/workflows/main:run", body: `{"input":{"a":1},"run_id":"run-1"}`, status: 202, contains: "joined"},
		{method: "POST", path: "/v1/workflows/main:run", status: 202},
		{method: "GET", path: "/v1/runs?status=running", status: 200, contains: "run-1"},
		{method: "GET", path: "/v1/runs?status=odd", status: 400, refused: true},
		{method: "GET", path: "/v1/runs/run-1", status: 200, contains: `"steps":[]`},
		{method: "POST", path: "/v1/runs/run-1/cancel", body: `{"reason":"enough"}`, status: 202},
		{method: "POST", path: "/v1/runs/run-1/cancel", status: 409},
		{method: "DELETE", path: "/v1/workflows/main?by=ann", status: 200},
		{method: "GET", path: "/v1/tools/composites", status: 200, contains: "cheap"},
		{method: "PATCH", path: "/v1/tools/composites/cheap", body: `{"enabled":false}`, status: 200},
		{method: "PATCH", path: "/v1/tools/composites/unknown", body: `{"enabled":false}`, status: 404},
		{method: "PATCH", path: "/v1/tools/composites/cheap", body: `{"on":false}`, status: 400, refused: true},
	}
}

func clock() []exchange {
	return []exchange{
		{
			method: "POST", path: "/v1/schedules", status: 201,
			body: `{"name":"morning","agent":"analyst","message":"x","cron":["0 8 * * *"],"notify":[{"on":"failure","webhook":{"url":"https://example.com/x"}},{"email":{"to":["a@example.com"]}}]}`,
		},
		{method: "POST", path: "/v1/schedules", body: `{"name":"morning","message":"x","every":"1h"}`, status: 409},
		{method: "POST", path: "/v1/schedules", body: `{"name":"x","message":"x","crons":[]}`, status: 400, refused: true},
		{method: "POST", path: "/v1/schedules", body: `{"name":"x","message":"x","every":"1h"}`, as: reader, status: 403},
		{method: "GET", path: "/v1/schedules?page_size=1", status: 200, contains: "morning"},
		{method: "GET", path: "/v1/schedules/morning", status: 200, contains: "next"},
		{method: "GET", path: "/v1/schedules/unknown", status: 404},
		{method: "PUT", path: "/v1/schedules/morning", body: `{"message":"y","every":"1h","limits":{"cost_usd":0.5}}`, status: 200},
		{method: "POST", path: "/v1/schedules/morning/pause", body: `{"note":"holidays"}`, status: 200, contains: "holidays"},
		{method: "POST", path: "/v1/schedules/morning/resume", status: 200},
		{method: "POST", path: "/v1/schedules/morning/trigger", header: []string{"Idempotency-Key", "k"}, status: 202},
		{method: "GET", path: "/v1/schedules/morning/runs", status: 200, contains: "notices"},
		{method: "DELETE", path: "/v1/schedules/morning", status: 204},
	}
}

func chatLinks() []exchange {
	return []exchange{
		{method: "POST", path: "/v1/links", body: `{"channel":"telegram","user_id":"ann","role":"clerk"}`, status: 201, contains: "expires_at"},
		{method: "POST", path: "/v1/links", body: `{"user_id":"ann"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/links", body: `{"channel":"telegram","user_id":"ann"}`, as: reader, status: 403},
		{method: "GET", path: "/v1/links?channel=telegram&page_size=5", status: 200, contains: `"scopes"`},
		{method: "GET", path: "/v1/links?page_size=501", status: 400, refused: true},
		{method: "DELETE", path: "/v1/links/telegram/7", status: 204},
		{method: "DELETE", path: "/v1/links/telegram/7", status: 404},
		{method: "POST", path: "/channels/telegram", body: `{"update_id":1}`, as: "nobody", header: []string{"X-Telegram-Bot-Api-Secret-Token", "right"}, status: 200},
		{method: "POST", path: "/channels/telegram", body: `{"update_id":1}`, as: "nobody", status: 401},
	}
}

func operations() []exchange {
	return []exchange{
		{method: "GET", path: "/health", as: "nobody", status: 200},
		{method: "GET", path: "/health", status: 200, contains: "dependencies"},
		{method: "GET", path: "/metrics", status: 200, contains: "up 1"},
		{method: "GET", path: "/metrics", as: reader, status: 403},
		{method: "GET", path: "/v1/whoami", as: reader, status: 200, contains: "agents.read"},
		{method: "GET", path: "/v1/whoami", as: "nobody", status: 401},
		{method: "POST", path: "/v1/doctor", body: `{"model":"small"}`, status: 200, contains: "event: end"},
		{method: "POST", path: "/v1/doctor", body: `{"model":"broken"}`, status: 200, contains: "event: error"},
		{method: "POST", path: "/v1/doctor", body: `{"model":"unknown"}`, status: 404},
		{method: "POST", path: "/v1/keys", body: `{"subject":"x"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/keys", body: `{"name":"x"}`, as: reader, status: 403},
		{method: "DELETE", path: "/v1/keys/unknown", status: 404},
		{method: "GET", path: "/v1/audit?outcome=odd", status: 400, refused: true},
		{method: "GET", path: "/v1/openapi.json", as: "nobody", status: 200},
		{method: "GET", path: "/v1/openapi.yaml", as: "nobody", status: 200},
	}
}
