package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// library is a server of documents. Tests can replace its handler.
type library struct {
	*site

	answer  atomic.Pointer[http.HandlerFunc]
	fetched atomic.Int32
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	l := &library{}
	l.site = newSite(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/x" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		l.fetched.Add(1)
		(*l.answer.Load())(w, r)
	})
	return l
}

func (l *library) answerWith(h http.HandlerFunc) { l.answer.Store(&h) }

func (l *library) args() string {
	return `{"openapi_url":"` + l.URL + `/doc.json","operation_id":"getWeather","params":{"city":"x"}}`
}

func TestCache(t *testing.T) {
	var now atomic.Int64
	l := newLibrary(t)
	a := kitFor(t, Config{now: func() time.Time { return time.Unix(now.Load(), 0) }}, l.site)
	fine := func(headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			if r.Header.Get("If-None-Match") == `"v1"` || r.Header.Get("If-Modified-Since") == "Mon, 02 Jan 2006 15:04:05 GMT" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, weather)
		}
	}
	use := func(want string) {
		t.Helper()
		res, _ := call(t, a, invocation(), l.args())
		if want == "" {
			require.Nil(t, res.Failure, "%+v", res.Failure)
			return
		}
		require.NotNil(t, res.Failure)
		require.Contains(t, res.Failure.Type+" "+res.Failure.Message, want)
	}
	asked := func(n int32, why string) {
		t.Helper()
		require.Equal(t, n, l.fetched.Swap(0), why)
	}
	l.answerWith(fine("ETag", `"v1"`))
	use("")
	use("")
	asked(1, "it is kept")
	now.Add(299)
	use("")
	asked(0, "for five minutes")
	now.Add(2)
	l.answerWith(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.WriteHeader(http.StatusTeapot)
	})
	use("")
	use("")
	asked(1, "then it is asked whether it has changed")
	now.Add(301)
	l.answerWith(fine("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT", "Cache-Control", "public, max-age=60"))
	a.documents.cached.Purge()
	use("")
	now.Add(59)
	use("")
	asked(1, "as long as the server says")
	now.Add(2)
	use("")
	asked(1, "and then by its date")

	now.Add(61)
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	use("")
	asked(1, "its server is away: the kept one is used")
	now.Add(3600)
	use("unavailable")
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	use("not_found")
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"swagger":"2.0"}`) })
	use("Swagger 2.0")
	l.answerWith(fine("Cache-Control", "no-cache"))
	l.fetched.Store(0)
	a.documents.cached.Purge()
	use("")
	use("")
	asked(2, "it wants to be asked each time")
	l.answerWith(fine("Cache-Control", "max-age=31536000"))
	a.documents.cached.Purge()
	use("")
	now.Add(3601)
	use("")
	asked(2, "an hour at most")
}

// TestStaleDocument checks that a cached document is used if its server is not available, but not if the server says that it is gone.
func TestStaleDocument(t *testing.T) {
	var now atomic.Int64
	l := newLibrary(t)
	a := kitFor(t, Config{now: func() time.Time { return time.Unix(now.Load(), 0) }}, l.site)
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, weather) })
	res, _ := call(t, a, invocation(), l.args())
	require.Nil(t, res.Failure)
	now.Add(301)
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	res, _ = call(t, a, invocation(), l.args())
	require.Equal(t, "not_found", res.Failure.Type)
	l.answerWith(hangUp)
	res, _ = call(t, a, invocation(), l.args())
	require.Nil(t, res.Failure, "%+v", res.Failure)
}

func TestSingleFlight(t *testing.T) {
	l := newLibrary(t)
	a := kitFor(t, Config{}, l.site)
	begun, release := make(chan struct{}), make(chan struct{})
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		fmt.Fprint(w, weather)
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := a.Call(ctx, invocation(), agent.ToolCall{Args: json.RawMessage(l.args())})
		gone <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	var all sync.WaitGroup
	var fine atomic.Int32
	for range 10 {
		all.Go(func() {
			if res, err := a.Call(t.Context(), invocation(), agent.ToolCall{Args: json.RawMessage(l.args())}); err == nil && res.Failure == nil {
				fine.Add(1)
			}
		})
	}
	close(release)
	all.Wait()
	require.Equal(t, int32(10), fine.Load())
	require.Equal(t, int32(1), l.fetched.Load())
}

func TestCacheIsBounded(t *testing.T) {
	l := newLibrary(t)
	l.answerWith(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, weather) })
	a := kitFor(t, Config{CacheBytes: int64(len(weather))*2 + 10}, l.site)
	for i := range 5 {
		res, _ := call(t, a, invocation(), strings.Replace(l.args(), "/doc", fmt.Sprintf("/doc%d", i), 1))
		require.Nil(t, res.Failure)
	}
	require.Equal(t, 2, a.documents.cached.Len())
	require.Equal(t, int64(len(weather))*2, a.documents.bytes)
	l.fetched.Store(0)
	_, _ = call(t, a, invocation(), strings.Replace(l.args(), "/doc", "/doc4", 1))
	require.Zero(t, l.fetched.Load())

	small := kitFor(t, Config{CacheBytes: 10}, l.site)
	res, _ := call(t, small, invocation(), l.args())
	require.Nil(t, res.Failure, "it is used all the same")
	require.Zero(t, small.documents.bytes)
}

// TestOtherFiles checks that files to which a document refers must have its origin.
func TestOtherFiles(t *testing.T) {
	evil := newSite(t, `{"name":"city","in":"query"}`, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"city","in":"query"}`) })
	l := newLibrary(t)
	l.answerWith(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/params.yaml":
			fmt.Fprint(w, "name: city\nin: query\nrequired: true\n")
		case "/away.json":
			http.Redirect(w, r, evil.URL+"/x", http.StatusFound)
		case "/huge.json":
			for range 17 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		default:
			ref := r.URL.Query().Get("ref")
			fmt.Fprintf(w, `{"openapi":"3.0.0","paths":{"/v1/x":{"get":{"operationId":"op","parameters":[{"$ref":%q}]}}}}`, ref)
		}
	})
	a := kitFor(t, Config{}, l.site, evil)
	for ref, says := range map[string]string{
		"params.yaml":                   "",
		"/away.json":                    "redirected to another origin",
		evil.URL + "/x":                 "leaves the origin",
		"file:///etc/passwd":            "leaves the origin",
		"http://169.254.169.254/latest": "leaves the origin",
		"http://127.0.0.1:1/x":          "leaves the origin",
		"huge.json":                     "larger than",
	} {
		res, _ := call(t, a, invocation(), `{"openapi_url":"`+l.URL+`/doc?ref=`+ref+`","operation_id":"op","params":{"city":"x"}}`)
		if says == "" {
			require.Nil(t, res.Failure, "%+v", res.Failure)
			continue
		}
		require.NotNil(t, res.Failure, ref)
		require.Contains(t, res.Failure.Message, says, ref)
	}
	require.Empty(t, evil.calls()[1:], "asked at most by the redirect, and then not read")
}
