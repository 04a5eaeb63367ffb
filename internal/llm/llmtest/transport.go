package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// Transport is an [http.RoundTripper] that answers every request with a stream of events, and keeps the last request.
type Transport struct {
	Events string
	Sent   []byte // body of the last request
	URL    string
	Header http.Header
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.Sent, _ = io.ReadAll(req.Body)
	t.URL, t.Header = req.URL.String(), req.Header
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(t.Events)),
	}, nil
}

// RequireStorable checks that a call has failed with a code, or returned a reply that can be stored.
func RequireStorable(t testing.TB, reply agent.ModelReply, err error) {
	t.Helper()
	if err != nil {
		require.NotEqual(t, agent.CodeInternal, agent.CodeOf(err))
		return
	}
	for i := range reply.Blocks {
		require.NoError(t, reply.Blocks[i].Validate("block"))
	}
	_, err = json.Marshal(reply.Blocks)
	require.NoError(t, err)
}

// Redirect returns a client that sends every request to the host of an address instead.
func Redirect(address string) *http.Client {
	return &http.Client{Transport: redirector(address)}
}

type redirector string

func (r redirector) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := url.Parse(string(r))
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host, req.Host = u.Scheme, u.Host, ""
	return http.DefaultTransport.RoundTrip(req)
}
