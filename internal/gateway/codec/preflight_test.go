package codec_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// TestPreflight asks as a browser does for the Web UI, of a gateway that allows other pages or none.
func TestPreflight(t *testing.T) {
	for _, allowed := range [][]string{nil, {"https://app.example.com"}, {"*"}} {
		h := open(t, &double{}, gateway.Config{
			AllowedOrigins: allowed, Auth: gatewaytest.Credentials{"ops": gatewaytest.Caller(agent.AnyTenant, "ops", "*")},
		})
		ask := func(path, origin string) *http.Response {
			res, _ := h.send(t, http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization,authorization-extras,content-type,x-namespace")
			return res
		}
		for _, origin := range []string{ui, "https://temporal.example.com"} {
			res := ask("/codec/decode", origin)
			require.Equal(t, http.StatusNoContent, res.StatusCode)
			require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
			for _, header := range []string{"Authorization", "Authorization-Extras", "Content-Type", "X-Namespace"} {
				require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), header)
			}
			res, _ = h.send(t, http.MethodPost, "/codec/decode", "x", "Origin", origin, "Authorization", "Bearer ops", "X-Namespace", "default")
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
		}
		for _, origin := range []string{"https://app.example.com", "http://localhost:1", h.url} {
			res := ask("/codec/decode", origin)
			require.Equal(t, http.StatusForbidden, res.StatusCode, "not even asked: %s", origin)
			require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}
		res := ask("/v1/turns", "http://localhost:1")
		require.Equal(t, http.StatusNoContent, res.StatusCode, "other paths are as ever")
		require.NotContains(t, res.Header.Get("Access-Control-Allow-Headers"), "X-Namespace")
	}
	h := open(t, &double{}, gateway.Config{AllowedOrigins: []string{"https://app.example.com"}})
	res, _ := h.send(t, http.MethodGet, "/health", "", "Origin", "https://temporal.example.com")
	require.Equal(t, http.StatusForbidden, res.StatusCode, "the Web UI's pages may call the codec and nothing else")
}
