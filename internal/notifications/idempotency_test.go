package notifications_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/notifications"
)

// A repeated attempt has the same Idempotency-Key. net/http would repeat a request with that header by itself if its connection broke, which must not
// happen.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete} {
		for _, body := range []string{`{"a":1}`, ""} {
			var keys []string
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				keys = append(keys, r.Header.Get("Idempotency-Key"))
				if r.Header.Get("Idempotency-Key") == "lost" {
					panic(http.ErrAbortHandler) // closes the connection
				}
			}))
			t.Cleanup(s.Close)
			h := webhooksTo(t, s.URL, true)
			for _, key := range []string{"a", "a", "b", "lost"} {
				w := notifications.Webhook{
					Tenant: "acme", Method: method, URL: s.URL, Body: []byte(body), Header: map[string]string{"X-Idempotency-Key": "theirs"}, Key: key,
				}
				if _, err := h.Send(t.Context(), w, func() error { return nil }); key == "lost" {
					require.ErrorIs(t, err, notifications.ErrUnknown)
				} else {
					require.NoError(t, err)
				}
			}
			s.Close()
			require.Equal(t, []string{"a", "a", "b", "lost"}, keys)
		}
	}
}
