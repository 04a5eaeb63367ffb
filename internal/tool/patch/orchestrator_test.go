package patch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

var _ tool.Workflows = (*Orchestrator)(nil)

// recordedRequest is a request that a fake orchestrator has received.
type recordedRequest struct {
	method, path, query, body string
	header                    http.Header
}

// fakeOrchestrator records its requests and answers them with a list of handlers. The last one answers all further requests.
type fakeOrchestrator struct {
	*httptest.Server

	answers []http.HandlerFunc

	mu       sync.Mutex
	recorded []recordedRequest
}

// requests returns the requests so far.
func (o *fakeOrchestrator) requests() []recordedRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.recorded)
}

func newFakeOrchestrator(t *testing.T, answers ...http.HandlerFunc) *fakeOrchestrator {
	t.Helper()
	o := &fakeOrchestrator{answers: answers}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		o.mu.Lock()
		o.recorded = append(o.recorded, recordedRequest{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header})
		answer := o.answers[min(len(o.recorded), len(o.answers))-1]
		o.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

// answer returns a handler that answers with a status, a body, and headers as pairs of name and value.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cutOff sends a part of an answer.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"patch_id":"p`)
}

// hangUp closes the connection instead of answering.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// patched is the answer to a patch.
const patched = `{"patch_id":"p7","version":4,"base_version":3,"workflow_tag":"main","workflow_owner":"ann","extra":true}`

func client(t *testing.T, api string) *Orchestrator {
	t.Helper()
	host := strings.TrimPrefix(strings.TrimSuffix(api, "/api/v1"), "http://")
	web, err := egress.New(egress.Config{AllowHosts: []string{host}, AllowPrivate: []string{host}})
	require.NoError(t, err)
	c, err := NewOrchestrator(api, web)
	require.NoError(t, err)
	c.pauses = func() backoff.BackOff { return &backoff.ZeroBackOff{} }
	return c
}

func patchRequest() agent.WorkflowPatchRequest {
	return agent.WorkflowPatchRequest{
		WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, Operations: json.RawMessage(`[{"op":"remove","path":"/nodes/0"}]`),
		Description: "less", BaseVersion: 3, Idempotency: "key-1", By: "bob",
	}
}

func TestNewOrchestratorRefuses(t *testing.T) {
	for _, api := range []string{"", "/api", "file:///x", "https://u:p@x.example", "https://x.example?key=1"} {
		_, err := NewOrchestrator(api, nil)
		requireError(t, err, agent.CodeInvalid, "api_url", "")
	}
}

// requireError checks the code, the field and a part of the message of an error.
func requireError(t *testing.T, err error, code agent.Code, field, message string) {
	t.Helper()
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.Equal(t, field, e.Field, "%v", err)
	require.ErrorContains(t, err, message)
	require.Less(t, len(err.Error()), 900)
}

func TestPatch(t *testing.T) {
	o := newFakeOrchestrator(t, answer(http.StatusOK, patched))
	c := client(t, o.URL+"/api/v1")
	r, err := c.PatchWorkflow(t.Context(), patchRequest())
	require.NoError(t, err)
	require.Equal(t, agent.WorkflowPatchResult{
		WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, PatchID: "p7", Version: 4, BaseVersion: 3,
	}, r)
	require.Len(t, o.requests(), 1)
	got := o.requests()[0]
	require.Equal(t, "POST /api/v1/workflows/main:patch", got.method+" "+got.path)
	require.JSONEq(t, `{"operations":[{"op":"remove","path":"/nodes/0"}],"description":"less","workflow_owner":"ann","base_version":3}`, got.body)
	require.Equal(t, "key-1", got.header.Get("Idempotency-Key"))
	require.Equal(t, `"3"`, got.header.Get("If-Match"))
	require.Equal(t, "application/json", got.header.Get("Content-Type"))

	minimal := patchRequest()
	minimal.Owner, minimal.BaseVersion, minimal.Description, minimal.Idempotency, minimal.Tenant, minimal.DryRun = "", 0, "", "", "", true
	_, err = c.PatchWorkflow(t.Context(), minimal)
	require.NoError(t, err)
	require.JSONEq(t, `{"operations":[{"op":"remove","path":"/nodes/0"}],"dry_run":true}`, o.requests()[1].body)
	require.Empty(t, o.requests()[1].header.Values("If-Match"))
	require.NotEmpty(t, o.requests()[1].header.Get("Idempotency-Key"))

	badKey := patchRequest()
	badKey.Idempotency = "a\r\nX: y"
	for range 2 {
		_, err = c.PatchWorkflow(t.Context(), badKey)
		require.NoError(t, err)
	}
	require.Regexp(t, `^[0-9a-f-]{36}$`, o.requests()[2].header.Get("Idempotency-Key"))
	require.Equal(t, o.requests()[2].header.Get("Idempotency-Key"), o.requests()[3].header.Get("Idempotency-Key"))
}

func TestVersionsAreNumbersOrTexts(t *testing.T) {
	for text, want := range map[string]int64{`7`: 7, `"7"`: 7, `"v7"`: 7, `"main@7"`: 0, `null`: 0, `{}`: 0, `7.5`: 0} {
		o := newFakeOrchestrator(t, answer(http.StatusCreated, `{"patch_id":"p","version":`+text+`}`))
		r, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
		require.NoError(t, err, text)
		require.Equal(t, want, r.Version)
		require.Equal(t, "main", r.Tag)
		require.EqualValues(t, 3, r.BaseVersion)
	}
}

func TestRetries(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{
		"429": answer(429, ""), "502": answer(502, "<html>"), "503": answer(503, ""), "504": answer(504, ""), "hung up": hangUp, "cut off": cutOff,
		"429, at once": answer(429, "", "Retry-After", "0"), "429, with nonsense": answer(429, "", "Retry-After", "soon"),
	} {
		t.Run(name, func(t *testing.T) {
			o := newFakeOrchestrator(t, first, first, answer(200, patched))
			r, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
			require.NoError(t, err)
			require.Equal(t, "p7", r.PatchID)
			require.Len(t, o.requests(), 3)
			for _, g := range o.requests() {
				require.Equal(t, o.requests()[0].header.Get("Idempotency-Key"), g.header.Get("Idempotency-Key"), "the same in all attempts")
				require.Equal(t, o.requests()[0].body, g.body)
			}
			withoutKey := patchRequest()
			withoutKey.Idempotency = ""
			o = newFakeOrchestrator(t, first, answer(200, patched))
			_, err = client(t, o.URL).PatchWorkflow(t.Context(), withoutKey)
			require.NoError(t, err)
			require.Equal(t, o.requests()[0].header.Get("Idempotency-Key"), o.requests()[1].header.Get("Idempotency-Key"))
		})
	}
}

// TestLostAnswer loses the answers of an orchestrator that has changed the workflow: the library of Turnstone.
func TestLostAnswer(t *testing.T) {
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore)})
	require.NoError(t, err)
	_, err = l.Put(t.Context(), library.PutRequest{
		WorkflowKey: agent.WorkflowKey{Tag: "main", Owner: "ann"}, Definition: json.RawMessage(`{"nodes":[{"id":"a","type":"condition","expr":"true"}]}`),
	})
	require.NoError(t, err)
	serve := func(lost bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			made, err := l.PatchWorkflow(r.Context(), agent.WorkflowPatchRequest{
				WorkflowKey: agent.WorkflowKey{Tag: "main"}, Idempotency: r.Header.Get("Idempotency-Key"),
				Operations: json.RawMessage(`[{"op":"add","path":"/nodes/-","value":{"id":"b","type":"condition","expr":"true"}}]`),
			})
			if err != nil || lost {
				hangUp(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(made)
		}
	}
	o := newFakeOrchestrator(t, serve(true), serve(true), serve(false))
	got, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Version)
	w, err := l.Workflow(t.Context(), agent.WorkflowKey{Tag: "main"}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, w.Version, "changed once")
	require.Equal(t, w.PatchID, got.PatchID)
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		answer         http.HandlerFunc
		code           agent.Code
		field, message string
		attempts       int
	}{
		"conflict":      {answer(409, `{"error":{"type":"conflict","message":"the newest version is 9"}}`), agent.CodeConflict, "base_version", "409: the newest version is 9", 1},
		"precondition":  {answer(412, `{"detail":"is 9"}`), agent.CodeConflict, "base_version", "412: is 9", 1},
		"not found":     {answer(404, `{"message":"no main"}`), agent.CodeNotFound, "workflow_tag", "404: no main", 1},
		"bad request":   {answer(400, `{"error":"nodes[3]: bad"}`), agent.CodeInvalid, "", "400: nodes[3]: bad", 1},
		"a field":       {answer(422, `{"error":{"message":"is bad","field":"operations[1].path"}}`), agent.CodeInvalid, "", "422: operations[1].path: is bad", 1},
		"problem":       {answer(422, `{"title":"Bad graph","detail":"a cycle"}`), agent.CodeInvalid, "", "422: Bad graph a cycle", 1},
		"plain":         {answer(400, "no\nway"), agent.CodeInvalid, "", "400: no way", 1},
		"long":          {answer(400, strings.Repeat("é", 5000)), agent.CodeInvalid, "", "400: éé", 1},
		"silent":        {answer(400, ""), agent.CodeInvalid, "", "400: Bad Request", 1},
		"unauthorised":  {answer(401, ""), agent.CodeDenied, "", "401", 1},
		"forbidden":     {answer(403, ""), agent.CodeDenied, "", "403", 1},
		"too large":     {answer(413, ""), agent.CodeOverflow, "operations", "413", 1},
		"no such call":  {answer(405, ""), agent.CodeInvalid, "", "405", 1},
		"broken":        {answer(500, "boom"), agent.CodeUnavailable, "", "500: boom", 1},
		"not modified":  {answer(304, ""), agent.CodeInternal, "", "304", 1},
		"busy":          {answer(429, "slow down"), agent.CodeRateLimited, "", "429: slow down", 5},
		"away":          {answer(503, ""), agent.CodeUnavailable, "", "503", 5},
		"gone":          {hangUp, agent.CodeUnavailable, "", "", 5},
		"no JSON":       {answer(200, "<html>"), agent.CodeInternal, "", "is not what was expected", 1},
		"no patch id":   {answer(200, `{}`), agent.CodeInternal, "", "without a patch_id", 1},
		"wrong type":    {answer(200, `{"patch_id":7}`), agent.CodeInternal, "", "is not what was expected", 1},
		"endless":       {answer(200, strings.Repeat(" ", 9<<20)), agent.CodeOverflow, "", "longer than 8388608 bytes", 1},
		"to elsewhere":  {answer(307, "", "Location", "http://169.254.169.254/"), agent.CodeInvalid, "", "redirects to another place", 1},
		"come tomorrow": {answer(429, "", "Retry-After", "86400"), agent.CodeRateLimited, "", "429", 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFakeOrchestrator(t, c.answer)
			_, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
			requireError(t, err, c.code, c.field, c.message)
			require.Len(t, o.requests(), c.attempts)
		})
	}
	o := newFakeOrchestrator(t, answer(503, "", "Retry-After", "30"))
	_, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
	var e *agent.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 30*time.Second, e.RetryAfter)
	require.Len(t, o.requests(), 1)
}

func TestRetryAfter(t *testing.T) {
	o := newFakeOrchestrator(t, answer(429, "", "Retry-After", "1"), answer(200, patched))
	began := time.Now()
	_, err := client(t, o.URL).PatchWorkflow(t.Context(), patchRequest())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Len(t, o.requests(), 2)

	o = newFakeOrchestrator(t, answer(503, "", "Retry-After", "5"))
	impatient := client(t, o.URL)
	impatient.patience = time.Second
	_, err = impatient.PatchWorkflow(t.Context(), patchRequest())
	requireError(t, err, agent.CodeUnavailable, "", "503")
	require.Len(t, o.requests(), 1, "the pause would exceed the patience")
	date := &http.Response{Header: http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}}
	require.InDelta(t, time.Hour.Seconds(), retryAfter(date).Seconds(), 5)
	date.Header.Set("Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	require.Zero(t, retryAfter(date))
}

func TestRefusedBeforeSending(t *testing.T) {
	o := newFakeOrchestrator(t, answer(200, patched))
	c := client(t, o.URL)
	for field, change := range map[string]func(*agent.WorkflowPatchRequest){
		"workflow_tag": func(r *agent.WorkflowPatchRequest) { r.Tag = "" },
		"revert_of":    func(r *agent.WorkflowPatchRequest) { r.Revert = "p1" },
		"operations":   func(r *agent.WorkflowPatchRequest) { r.Operations = json.RawMessage(`[`) },
	} {
		r := patchRequest()
		change(&r)
		_, err := c.PatchWorkflow(t.Context(), r)
		requireError(t, err, agent.CodeInvalid, field, "")
	}
	for _, tag := range []string{"../x", "a/b", "a:delete", "..", "."} {
		r := patchRequest()
		r.Tag = tag
		_, err := c.PatchWorkflow(t.Context(), r)
		requireError(t, err, agent.CodeInvalid, "workflow_tag", "is no name")
	}
	r := patchRequest()
	r.Operations = json.RawMessage(`["` + strings.Repeat("x", maxPatchRequest) + `"]`)
	_, err := c.PatchWorkflow(t.Context(), r)
	requireError(t, err, agent.CodeOverflow, "operations", "at most")
	require.Empty(t, o.requests())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.PatchWorkflow(ctx, patchRequest())
	requireError(t, err, agent.CodeCancelled, "", "")
}

func TestSlowOrchestrator(t *testing.T) {
	release := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, patched)
	}
	o := newFakeOrchestrator(t, slow, answer(200, patched))
	t.Cleanup(func() { close(release) })
	c := client(t, o.URL)
	c.timeout = 50 * time.Millisecond
	r, err := c.PatchWorkflow(t.Context(), patchRequest())
	require.NoError(t, err, "the first attempt times out, the second one is answered")
	require.Equal(t, "p7", r.PatchID)
}

func TestList(t *testing.T) {
	o := newFakeOrchestrator(t, answer(200, `{"workflows":[{"workflow_tag":"main","workflow_owner":"ann","version":3,"definition":{"nodes":[]},"patch_id":"p"},
		{"workflow_tag":"other","workflow_owner":"bob","version":"1","description":"reports"}],"next_page_token":"n"}`))
	c := client(t, o.URL+"/api/v1")
	page, err := c.ListWorkflows(t.Context(), agent.WorkflowQuery{Tenant: "acme", Page: agent.Page{Size: 7, Token: "t"}})
	require.NoError(t, err)
	require.Equal(t, agent.WorkflowPage{Next: "n", Workflows: []agent.StoredWorkflow{
		{WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, Version: 3, Definition: json.RawMessage(`{"nodes":[]}`), PatchID: "p"},
		{WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "bob", Tag: "other"}, Version: 1, Definition: json.RawMessage(`{"description":"reports","edges":[],"nodes":[]}`)},
	}}, page)
	require.Equal(t, "GET /api/v1/workflows?page_size=7&page_token=t", o.requests()[0].method+" "+o.requests()[0].path+"?"+o.requests()[0].query)
	page, err = c.ListWorkflows(t.Context(), agent.WorkflowQuery{Tag: "main", Owner: "ann"})
	require.NoError(t, err)
	require.Len(t, page.Workflows, 1, "even if the orchestrator ignores the query")
	require.Equal(t, "owner=ann&tag=main", o.requests()[1].query)
	for _, q := range []agent.WorkflowQuery{{Tag: "other"}, {Owner: "bob"}} {
		page, err = c.ListWorkflows(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Workflows, 1)
		require.Equal(t, "bob", page.Workflows[0].Owner)
	}

	for _, status := range []int{404, 405, 501} {
		o := newFakeOrchestrator(t, answer(status, ""))
		page, err := client(t, o.URL).ListWorkflows(t.Context(), agent.WorkflowQuery{})
		require.NoError(t, err)
		require.Empty(t, page.Workflows)
	}
	o = newFakeOrchestrator(t, answer(503, ""), answer(200, `{}`))
	_, err = client(t, o.URL).ListWorkflows(t.Context(), agent.WorkflowQuery{})
	require.NoError(t, err)
	o = newFakeOrchestrator(t, answer(403, "no"))
	_, err = client(t, o.URL).ListWorkflows(t.Context(), agent.WorkflowQuery{})
	requireError(t, err, agent.CodeDenied, "", "403: no")
}

func TestFirstPause(t *testing.T) {
	o, err := NewOrchestrator("https://x.example", nil)
	require.NoError(t, err)
	p := o.pauses()
	p.Reset()
	first := p.NextBackOff()
	require.Positive(t, first)
	require.Less(t, first, 2*firstPause)
}

func FuzzAnswerMessage(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"x","field":"y"},"title":"z"}`))
	f.Add([]byte(`{"error":"x\u0000\n"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		message := answerMessage(raw)
		require.LessOrEqual(t, len(message), maxOrchestratorMessage+len("…"))
		require.NotContains(t, message, "\n")
		require.True(t, utf8.ValidString(message))
	})
}
