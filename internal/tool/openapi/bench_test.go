package openapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// answerer answers without a network: what is measured is ours.
type fixedHTTP struct{ doc string }

func (a fixedHTTP) Do(req *http.Request) (*http.Response, error) {
	body := `{"temp":1}`
	if strings.HasSuffix(req.URL.Path, "openapi.json") {
		body = a.doc
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// many is the weather with 1,500 more operations: 5 MB.
func largeDocument() string {
	var b strings.Builder
	filler := strings.Repeat("Told at length. ", 210)
	for i := range 1500 {
		fmt.Fprintf(&b, `"/more%[1]d/{id}":{"get":{"operationId":"more%[1]d","description":%[2]q,"responses":{}}},`, i, filler)
	}
	return strings.Replace(weather, `"paths":{`, `"paths":{`+b.String(), 1)
}

// A call of an operation of a document of 5 MB that is kept.
func BenchmarkCallFromCache(b *testing.B) {
	doc := largeDocument()
	require.Greater(b, len(doc), 5_000_000)
	kit, ok := New(Config{HTTP: fixedHTTP{doc}, Freshness: time.Hour}).(*toolkit)
	require.True(b, ok)
	call := agent.ToolCall{Args: json.RawMessage(`{"openapi_url":"https://api.example.com/openapi.json","operation_id":"getWeather","params":{"city":"x"}}`)}
	_, err := kit.tool.Call(b.Context(), agent.Invocation{}, call)
	require.NoError(b, err)
	for b.Loop() {
		res, err := kit.tool.Call(b.Context(), agent.Invocation{}, call)
		require.NoError(b, err)
		require.Nil(b, res.Failure)
	}
}
