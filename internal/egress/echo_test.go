package egress

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Credentials that a server repeats in its response are masked.
func TestEchoedCredentials(t *testing.T) {
	const secret, password = `tok+en/"123"`, "pass:word-1"
	c, address := upstream(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
		fmt.Fprintf(w, "%s|%s|%s|%s|%s", r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), password, r.URL.RawQuery, r.URL.Query().Get("key"))
		fmt.Fprintf(w, "|%q|short: abc|%s", r.Header.Get("X-Api-Key"), r.Header.Get("X-Plain"))
		fmt.Fprintf(w, "|%s|%s", r.Header.Get("Cookie"), r.Header.Get("X-Words"))
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/?q=public&key="+url.QueryEscape(secret), nil)
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", secret)
	req.Header.Set("X-Short", "abc")
	req.Header.Set("X-Plain", "not a credential")
	req.Header.Set("X-Words", "two words")
	req.Header.Set("Cookie", "SID=cook; other=k")
	req.SetBasicAuth("joe", password)
	req = req.WithContext(WithCredentials(req.Context(), Credentials{Headers: []string{"X-Api-Key", "Authorization", "X-Short", "X-Words", "Cookie"}, Query: []string{"key"}}))
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	text := string(body) + strings.Join(resp.Header.Values("X-Echo"), "")
	for _, form := range []string{secret, url.QueryEscape(secret), password, base64.StdEncoding.EncodeToString([]byte("joe:" + password)), `tok+en/\"123\"`, "cook", "two", "words"} {
		require.NotContains(t, text, form)
	}
	require.Contains(t, text, "q=public")
	require.Contains(t, text, "|short: abc|not a credential")
	require.Contains(t, text, "[redacted]|Basic [redacted]|[redacted]|")
}
