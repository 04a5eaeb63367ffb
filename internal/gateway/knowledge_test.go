package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// do sends a request whose body may be a stream.
func (d *testGateway) do(ctx context.Context, method, path string, body io.Reader) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, body)
	require.NoError(d.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

type documentList struct {
	Documents []agent.KnowledgeDocument `json:"documents"`
	Next      *string                   `json:"next_page_token"`
}

func TestKnowledge(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Collections = []string{"handbook"}
	const path = "/v1/knowledge/handbook/documents"
	a := d.send("POST", path+"?id=a%2Fb&title=Rules&source=docs/rules.md&metadata=%7B%22team%22%3A%22x%22%7D", "# Be kind\n",
		"Content-Type", "text/markdown; charset=utf-8")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.NotContains(t, string(a.body), "next_page_token")
	added := decode[documentList](t, a).Documents[0]
	require.Equal(t, []string{"default", "handbook", "a/b", "Rules", "docs/rules.md", "text/markdown", `{"team":"x"}`},
		[]string{added.Tenant, added.Collection, added.ID, added.Title, added.Source, added.MIMEType, string(added.Metadata)})
	require.Equal(t, int64(10), added.Bytes)

	for name, types := range map[string][2]string{
		"b": {"application/x-www-form-urlencoded", ""}, "c": {"application/octet-stream", ""}, "d": {"", ""}, "e": {"application/pdf", "application/pdf"},
	} {
		a := d.send("POST", path+"?id="+name, "kind words", "Content-Type", types[0])
		require.Equal(t, 200, a.status)
		require.Equal(t, types[1], decode[documentList](t, a).Documents[0].MIMEType, name)
	}
	d.send("POST", path+"?id=a&tenant=acme", "kind too")

	list := decode[documentList](t, d.send("GET", path+"?page_size=2", ""))
	require.Len(t, list.Documents, 2)
	require.Equal(t, "b", *list.Next)
	list = decode[documentList](t, d.send("GET", path+"?page_token=d", ""))
	require.Len(t, list.Documents, 1)
	require.Empty(t, *list.Next)
	require.JSONEq(t, `{"documents":[],"next_page_token":""}`, string(d.send("GET", path+"?page_token=zz", "").body))

	a = d.send("GET", "/v1/knowledge/handbook/search?q=kind&top_k=2", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, 2, strings.Count(string(a.body), `"document_id"`))
	require.JSONEq(t, `{"passages":[]}`, string(d.send("GET", "/v1/knowledge/handbook/search?q=nowhere", "").body))

	a = d.send("DELETE", path+"/a%2Fb", "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"collection":"handbook","id":"a/b"}`, string(a.body))
	require.Equal(t, 404, d.send("DELETE", path+"/a/b", "").status, "gone; slashes need no escape")
	require.Equal(t, 200, d.send("DELETE", path+"/a?tenant=acme", "").status)
}

func TestKnowledgeFaults(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Collections = []string{"handbook"}
	cases := map[string]struct {
		method, path, contentType string
		status                    int
		field                     string
	}{
		"unknown collection":   {"POST", "nope/documents?id=a", "", 404, "collection"},
		"bad collection":       {"POST", "a%20b/documents?id=a", "", 404, "collection"},
		"unknown, list":        {"GET", "nope/documents", "", 404, "collection"},
		"unknown, search":      {"GET", "nope/search?q=x", "", 404, "collection"},
		"unknown, delete":      {"DELETE", "nope/documents/x", "", 404, "collection"},
		"no document":          {"DELETE", "handbook/documents/x", "", 404, ""},
		"no id":                {"DELETE", "handbook/documents/", "", 404, ""},
		"metadata no object":   {"POST", "handbook/documents?metadata=[1]", "", 400, "metadata"},
		"metadata no JSON":     {"POST", "handbook/documents?metadata={", "", 400, "metadata"},
		"metadata null":        {"POST", "handbook/documents?metadata=null", "", 400, "metadata"},
		"title too long":       {"POST", "handbook/documents?title=" + strings.Repeat("x", 2000), "", 400, "title"},
		"malformed type":       {"POST", "handbook/documents?id=a", "text/", 400, ""},
		"a type that is none":  {"POST", "handbook/documents?id=a", "application/zip", 400, ""},
		"nothing searched for": {"GET", "handbook/search", "", 400, "q"},
		"too many":             {"GET", "handbook/search?q=x&top_k=101", "", 400, "top_k"},
		"negative":             {"GET", "handbook/search?q=x&top_k=-1", "", 400, "top_k"},
		"long question":        {"GET", "handbook/search?q=" + strings.Repeat("x", 5000), "", 400, "q"},
		"page size":            {"GET", "handbook/documents?page_size=5000", "", 400, "page_size"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			body := ""
			if c.method == "POST" {
				body = "text"
			}
			a := d.send(c.method, "/v1/knowledge/"+c.path, body, "Content-Type", c.contentType)
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Equal(t, c.field, a.failure(t).Field)
		})
	}
	require.JSONEq(t, `{"documents":[],"next_page_token":""}`, string(d.send("GET", "/v1/knowledge/handbook/documents", "").body), "nothing was stored")
	require.Equal(t, 404, d.sendBeforeReading("/v1/knowledge/nope/documents", "text/plain", 32<<20))
}

func TestUploadIsBounded(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.UploadBytes = 1 << 20; c.Limits.ReadTimeout = 100 * time.Millisecond })
	d.rt.Collections = []string{"handbook"}
	const size = 50 << 20
	for name, length := range map[string]int64{"known length": size, "unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			body := &endlessBody{}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/knowledge/handbook/documents?id=a", io.LimitReader(body, size))
			require.NoError(t, err)
			req.ContentLength = length
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, 413, resp.StatusCode, "%s", data)
			require.Contains(t, string(data), `"type":"overflow"`)
			require.Less(t, body.read.Load(), int64(size-1), "the client should have been stopped early")
		})
	}
	// An error that is found before the body is read comes first.
	resp := d.do(t.Context(), "POST", "/v1/knowledge/nope/documents?id=a", io.LimitReader(&endlessBody{}, size))
	require.Equal(t, 404, resp.StatusCode)
	// A body of the maximum size is accepted.
	a := d.send("POST", "/v1/knowledge/handbook/documents?id=a", strings.Repeat("x", 1<<20))
	require.Equal(t, 200, a.status)
	require.Contains(t, string(a.body), fmt.Sprintf(`"bytes":%d`, 1<<20))

	// A client that stops sending is refused, and nothing is stored.
	in, out := io.Pipe()
	defer out.Close()
	go func() { _, _ = out.Write([]byte("half of it")) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/knowledge/handbook/documents?id=half", in)
	require.NoError(t, err)
	resp, err = http.DefaultClient.Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 408, resp.StatusCode)
	}
	require.NotContains(t, string(d.send("GET", "/v1/knowledge/handbook/documents", "").body), "half")
}

// ignoringKnowledge ignores errors of reading a file.
type ignoringKnowledge struct{ *gatewaytest.Runtime }

func (ignoringKnowledge) AddKnowledge(_ context.Context, k gateway.KnowledgeAdd) ([]agent.KnowledgeDocument, error) {
	_, _ = io.Copy(io.Discard, k.Body)
	return []agent.KnowledgeDocument{{ID: "half"}}, nil
}

func TestBrokenUploadIsAnError(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Limits.UploadBytes = 1000
		c.Knowledge = ignoringKnowledge{gatewaytest.New()}
	})
	resp := d.do(t.Context(), "POST", "/v1/knowledge/handbook/documents?id=a", io.LimitReader(&endlessBody{}, 1001))
	require.Equal(t, 413, resp.StatusCode)
	resp = d.do(t.Context(), "POST", "/v1/knowledge/handbook/documents?id=a", io.LimitReader(&endlessBody{}, 1000))
	require.Equal(t, 200, resp.StatusCode)
}
