package egress

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// What a server repeats of the credentials that it was sent does not come back.
func TestEchoedCredentials(t *testing.T) {
	t.Parallel()
	const secret, password = `tok+en/"123"`, "pass:word-1"
	c, at := upstream(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
		fmt.Fprintf(w, "%s|%s|%s|%s|%s", r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), password, r.URL.RawQuery, r.URL.Query().Get("key"))
		fmt.Fprintf(w, "|%q|short: abc|%s", r.Header.Get("X-Api-Key"), r.Header.Get("X-Plain"))
		fmt.Fprintf(w, "|%s|%s", r.Header.Get("Cookie"), r.Header.Get("X-Words"))
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/?q=public&key="+url.QueryEscape(secret), nil)
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

// However a body comes in pieces, what is read is what one replacement of the whole would be.
func TestMaskedBody(t *testing.T) {
	t.Parallel()
	secrets := []string{"abcabcabd", "abcabd", "abcabc"}
	for _, text := range []string{
		"", "nothing", "abcab", "abcabc", "xabcabdx", "abcabcabdabcabd", "abcabcab", "ababcabcababcabd", strings.Repeat("abcabcabcabd-", 3000), "abcabcabcabcabcabd",
	} {
		var whole string
		for i, reader := range []io.Reader{
			strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text)),
			iotest.DataErrReader(strings.NewReader(text)),
		} {
			out, err := io.ReadAll(&maskedBody{ReadCloser: io.NopCloser(reader), masker: NewMasker(secrets...)})
			require.NoError(t, err)
			for _, s := range secrets {
				require.False(t, bytes.Contains(out, []byte(s)), "%q in %q", s, out)
			}
			if i == 0 {
				whole = string(out)
			}
			require.Equal(t, whole, string(out), "reader %d of %.40q", i, text)
		}
	}
	out, err := io.ReadAll(&maskedBody{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("abcab"), iotest.ErrReader(errors.New("cut")))), masker: NewMasker(secrets...)})
	require.EqualError(t, err, "cut")
	require.Equal(t, "abcab", string(out))
}
