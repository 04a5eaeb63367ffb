package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
)

// operatorKey is what a test configures: nobody's secret.
var operatorKey = "operator-" + strings.Repeat("of-the-tests-", 3)

// locked is a service that wants credentials.
func locked(t *testing.T, change ...func(*app.Config)) *system {
	t.Helper()
	s := start(t, append(change, func(c *app.Config) {
		c.Auth.Keys, c.Auth.OperatorKey = true, app.Secret(operatorKey)
	})...)
	var err error
	s.client, err = client.New(client.Config{Server: "http://" + s.HTTPAddr(), Key: operatorKey})
	require.NoError(t, err)
	return s
}

// as is a client with a key of a tenant, with these scopes.
func (s *system) as(tenant, subject string, scopes ...string) (*client.Client, string) {
	s.t.Helper()
	answer := s.request(operatorKey, http.MethodPost, "/v1/keys", map[string]any{"name": "test", "tenant": tenant, "subject": subject, "scopes": scopes})
	require.Equal(s.t, http.StatusCreated, answer.status, "%s", answer.body)
	var made struct {
		Key string `json:"key"`
	}
	require.NoError(s.t, json.Unmarshal(answer.body, &made))
	require.NotEmpty(s.t, made.Key)
	c, err := client.New(client.Config{Server: "http://" + s.HTTPAddr(), Key: made.Key})
	require.NoError(s.t, err)
	return c, made.Key
}

type response struct {
	status int
	header http.Header
	body   []byte
}

// kind is the type of an answer that is an error.
func (a *response) kind() string {
	var body struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(a.body, &body) // anything else has none
	return body.Error.Type
}

// request sends a request with a credential.
func (s *system) request(key, method, path string, body any) *response {
	s.t.Helper()
	var content io.Reader
	if text, ok := body.(string); ok {
		content = strings.NewReader(text)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(s.t, err)
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.HTTPAddr()+path, content)
	require.NoError(s.t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return &response{status: resp.StatusCode, header: resp.Header, body: read}
}

// run starts a turn with a client and follows it to its end.
func runAs(t *testing.T, c *client.Client, req agent.TurnRequest) *agent.AgentStepOutput {
	t.Helper()
	receipt, err := c.Start(t.Context(), req)
	require.NoError(t, err)
	var out *agent.AgentStepOutput
	for e, err := range c.Follow(t.Context(), receipt.TurnID, 0) {
		require.NoError(t, err)
		if e.Terminal() {
			out = e.Result
		}
	}
	require.NotNil(t, out)
	return out
}

// Nothing of a tenant can be read or changed with another tenant's credential, by whoever knows or guesses its ids: they are as unknown to him
// as ids that nobody has.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	s := locked(t)
	ours, ourKey := s.as("acme", "ann", "*")
	_, theirKey := s.as("globex", "gus", "*")

	out := runAs(t, ours, agent.TurnRequest{Message: mainJob, SessionID: "trip"})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	waiting := s.request(ourKey, http.MethodPost, "/v1/turns", map[string]any{
		"message": "add email notification whenever price drops below $500", "session_id": "pausing",
	})
	require.Equal(t, http.StatusAccepted, waiting.status, "%s", waiting.body)
	var paused struct {
		TurnID  string           `json:"turn_id"`
		Pending []agent.Approval `json:"pending"`
	}
	require.NoError(t, json.Unmarshal(waiting.body, &paused))
	require.NotEmpty(t, paused.Pending)
	for path, body := range map[string]any{
		"/v1/catalog/apply": map[string]any{"documents": []any{
			map[string]any{"kind": "KnowledgeCollection", "tenant": "acme", "name": "handbook"},
			map[string]any{
				"kind": "AgentInstance", "tenant": "acme", "name": "secretary", "node_id": "agent", "node_version": "1",
				"parameters": map[string]any{"system_message": "quiet words"},
			},
		}},
	} {
		got := s.request(ourKey, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	}
	added := s.request(ourKey, http.MethodPost, "/v1/knowledge/handbook/documents?id=d1", "quiet words")
	require.Equal(t, http.StatusBadRequest, added.status, "JSON is no document")

	turn, result := string(out.TurnID), strings.TrimPrefix(out.ResultRef, "artifact://")
	approval := paused.Pending[0].ApprovalID
	for _, c := range []struct {
		method, path string
		body         any
		unknown      string // the same with an id that nobody has
	}{
		{http.MethodGet, "/v1/turns/" + turn, nil, "/v1/turns/nobodys"},
		{http.MethodGet, "/v1/turns/" + turn + "/events", nil, "/v1/turns/nobodys/events"},
		{http.MethodPost, "/v1/turns/" + turn + "/cancel", map[string]any{}, "/v1/turns/nobodys/cancel"},
		{http.MethodPost, "/v1/turns/" + turn + "/messages", map[string]any{"message": "hello"}, "/v1/turns/nobodys/messages"},
		{
			http.MethodPost, "/v1/turns/" + paused.TurnID + "/decisions",
			map[string]any{"approval_id": approval, "decision": "approve"},
			"/v1/turns/nobodys/decisions",
		},
		{http.MethodPost, "/v1/turns/" + turn + "/results", map[string]any{"tool_call_id": "c", "result": 1}, "/v1/turns/nobodys/results"},
		{http.MethodGet, "/v1/approvals/" + approval, nil, "/v1/approvals/nobodys"},
		{http.MethodGet, "/v1/results/" + result, nil, "/v1/results/00000000-0000-4000-8000-000000000000"},
		{http.MethodGet, "/v1/results/" + turn, nil, "/v1/results/nobodys"},
		{http.MethodGet, "/v1/results/" + result + "/data", nil, "/v1/results/00000000-0000-4000-8000-000000000000/data"},
		{http.MethodGet, "/v1/sessions/trip/messages", nil, "/v1/sessions/nobodys/messages"},
		{http.MethodGet, "/v1/sessions/trip/export", nil, "/v1/sessions/nobodys/export"},
		{http.MethodDelete, "/v1/sessions/trip", nil, "/v1/sessions/nobodys"},
		{http.MethodGet, "/v1/knowledge/handbook/documents", nil, "/v1/knowledge/nobodys/documents"},
		{http.MethodGet, "/v1/knowledge/handbook/search?q=quiet", nil, "/v1/knowledge/nobodys/search?q=quiet"},
		{http.MethodDelete, "/v1/knowledge/handbook/documents/d1", nil, "/v1/knowledge/nobodys/documents/d1"},
		{http.MethodGet, "/v1/catalog/documents/AgentInstance/secretary", nil, "/v1/catalog/documents/AgentInstance/nobodys"},
		{http.MethodDelete, "/v1/catalog/documents/AgentInstance/secretary", nil, "/v1/catalog/documents/AgentInstance/nobodys"},
		{http.MethodGet, "/v1/catalog/agents/secretary/plan", nil, "/v1/catalog/agents/nobodys/plan"},
		{http.MethodPost, "/v1/turns", map[string]any{"agent": "secretary", "message": "hello"}, ""},
	} {
		got := s.request(theirKey, c.method, c.path, c.body)
		require.Equal(t, http.StatusNotFound, got.status, "%s %s: %s", c.method, c.path, got.body)
		require.NotContains(t, string(got.body), "quiet")
		if c.unknown != "" {
			unknown := s.request(theirKey, c.method, c.unknown, c.body)
			require.Equal(t, got.status, unknown.status, "%s %s", c.method, c.path)
			require.Equal(t, got.kind(), unknown.kind(), "%s %s", c.method, c.path)
		}
		for _, key := range []string{"", theirKey + "x"} {
			require.Equal(t, http.StatusUnauthorized, s.request(key, c.method, c.path, c.body).status, "%s %s", c.method, c.path)
		}
	}
	// Naming the other tenant does not help either.
	for _, path := range []string{"/v1/turns/" + turn + "?tenant=acme", "/v1/sessions/trip/messages?tenant=acme", "/v1/catalog/documents?tenant=acme"} {
		require.Equal(t, http.StatusForbidden, s.request(theirKey, http.MethodGet, path, nil).status, path)
	}
	named := s.request(theirKey, http.MethodPost, "/v1/turns", map[string]any{"message": "hello", "context": map[string]any{"tenant": "acme"}})
	require.Equal(t, http.StatusForbidden, named.status, "%s", named.body)
	taken := s.request(theirKey, http.MethodPost, "/v1/turns", map[string]any{"message": "hello", "turn_id": turn})
	require.Equal(t, http.StatusConflict, taken.status, "%s", taken.body)
	require.NotContains(t, string(taken.body), "trip")
	// And nothing of it has changed.
	require.Equal(t, http.StatusOK, s.request(ourKey, http.MethodGet, "/v1/sessions/trip/messages", nil).status)
	require.Contains(t, string(s.request(ourKey, http.MethodGet, "/v1/turns/"+paused.TurnID, nil).body), `"waiting"`)
	require.Equal(t, http.StatusOK, s.request(ourKey, http.MethodGet, "/v1/catalog/documents/AgentInstance/secretary", nil).status)
	same := runAs(t, ours, agent.TurnRequest{Message: "say 2 words", SessionID: "trip"})
	require.Equal(t, agent.TurnCompleted, same.Status)
	// A session of the same name is another one.
	theirs, err := client.New(client.Config{Server: "http://" + s.HTTPAddr(), Key: theirKey})
	require.NoError(t, err)
	runAs(t, theirs, agent.TurnRequest{Message: "say 2 words", SessionID: "trip"})
	page, err := theirs.Messages(t.Context(), "trip", 0, 100)
	require.NoError(t, err)
	require.Len(t, page.Messages, 2)
}

// What a credential does not allow is denied, whatever the body says of its sender.
func TestScopes(t *testing.T) {
	t.Parallel()
	s := locked(t)
	_, reader := s.as("acme", "rita", "turns.read", "results.read")
	_, other := s.as("acme", "otto", "turns.run:somebody", "turns.read")
	denied := s.request(reader, http.MethodPost, "/v1/turns", map[string]any{"message": "hello"})
	require.Equal(t, http.StatusForbidden, denied.status, "%s", denied.body)
	require.Equal(t, http.StatusForbidden, s.request(other, http.MethodPost, "/v1/turns", map[string]any{"agent": "analyst", "message": "hello"}).status)
	require.Equal(t, http.StatusForbidden, s.request(other, http.MethodPost, "/v1/turns", map[string]any{"message": "hello"}).status, "routed to the analyst")
	for _, path := range []string{"/v1/keys", "/v1/audit", "/metrics", "/v1/catalog/documents"} {
		require.Equal(t, http.StatusForbidden, s.request(reader, http.MethodGet, path, nil).status, path)
	}
	escalation := s.request(reader, http.MethodPost, "/v1/keys", map[string]any{"name": "more", "scopes": []string{"*"}})
	require.Equal(t, http.StatusForbidden, escalation.status)

	// A turn without tools: the model may ask for them, and gets none.
	bare, _ := s.as("acme", "bea", "turns.*", "results.read")
	out := runAs(t, bare, agent.TurnRequest{Message: mainJob})
	for _, c := range out.ToolCalls {
		require.NotEqual(t, "success", c.Status, "%+v", c)
	}

	_, ann := s.as("acme", "ann", "turns.*")
	got := s.request(ann, http.MethodPost, "/v1/turns?wait=false", map[string]any{
		"message": "say 2 words", "context": map[string]any{"user_id": "root", "user_role": "admin", "flags": map[string]any{"beta": true}},
	})
	require.Equal(t, http.StatusAccepted, got.status, "%s", got.body)
	var receipt agent.Receipt
	require.NoError(t, json.Unmarshal(got.body, &receipt))
	s.follow(t.Context(), receipt.TurnID)
	export := s.request(operatorKey, http.MethodGet, "/v1/sessions/"+string(receipt.SessionID)+"/export?tenant=acme", nil)
	require.Equal(t, http.StatusOK, export.status, "%s", export.body)
	require.Contains(t, string(export.body), `"user_id":"ann"`)

	// The trail has all of it, and no secret.
	trail := s.request(operatorKey, http.MethodGet, "/v1/audit?tenant=acme&limit=500", nil)
	require.Equal(t, http.StatusOK, trail.status, "%s", trail.body)
	require.Eventually(t, func() bool {
		trail = s.request(operatorKey, http.MethodGet, "/v1/audit?tenant=acme&limit=500", nil)
		text := string(trail.body)
		return strings.Contains(text, `"subject":"rita"`) && strings.Contains(text, `"outcome":"denied"`) && strings.Contains(text, `"mode":"durable"`) && strings.Contains(text, `"remote":"127.0.0.1:`)
	}, 30*time.Second, 50*time.Millisecond)
	require.NotContains(t, string(trail.body), ann)
}
