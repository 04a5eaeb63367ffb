package openapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// keyed is a document whose operations have the header X-Idempotency-Key, with which net/http may also repeat a request.
var keyed = strings.ReplaceAll(methods, `"operationId"`,
	`"parameters":[{"name":"X-Idempotency-Key","in":"header","schema":{"type":"string"}}],"operationId"`)

// TestIdempotencyKeys checks that attempts of a call have the same idempotency key, and other calls have others.
func TestIdempotencyKeys(t *testing.T) {
	s := newSite(t, methods, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	a := kitFor(t, Config{}, s)
	for _, id := range []string{"post", "patch"} {
		before := len(s.calls())
		for _, key := range []string{"turn/1/a", "turn/1/a", "turn/1/b", ""} {
			inv := invocation()
			inv.IdempotencyKey = key
			res, _ := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"`+id+`","params":{}}`)
			require.Nil(t, res.Failure)
		}
		var keys []string
		for _, c := range s.calls()[before:] {
			keys = append(keys, c.header.Get("Idempotency-Key"))
		}
		require.Equal(t, []string{"turn/1/a", "turn/1/a", "turn/1/b", ""}, keys, id)
	}
}

// TestSentOnce checks that a POST or PATCH, with or without a body, is sent once: net/http does not repeat it on a lost connection, and does not
// redirect it.
func TestSentOnce(t *testing.T) {
	for _, params := range []string{`{}`, `{"X-Idempotency-Key":"k"}`, `{"body":{"a":1}}`, `{"body":{"a":1},"X-Idempotency-Key":"k"}`} {
		for _, id := range []string{"post", "patch"} {
			if id == "post" && strings.Contains(params, "body") {
				continue
			}
			s := newSite(t, keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			a := kitFor(t, Config{}, s)
			args := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"` + id + `","params":` + params + `}`
			res, _ := call(t, a, invocation(), args) // opens the connection
			require.Nil(t, res.Failure)
			s.serve(hangUp)
			res, _ = call(t, a, invocation(), args)
			require.Equal(t, agent.OutcomeUnknown, res.Failure.Type)
			require.Len(t, s.calls(), 2, "%s %s", id, params)
			s.serve(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			})
			res, _ = call(t, a, invocation(), args)
			require.Contains(t, res.Failure.Message, "which is not followed")
			require.Len(t, s.calls(), 3, "%s %s", id, params)
		}
	}
}
