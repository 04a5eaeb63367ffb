package pipeline

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsAreNotPromoted(t *testing.T) {
	get := func(rest string) string { return `{"step":"http_request","url":"https://h.example/` + rest + `}` }
	compared := func(value string) string {
		return `{"step":"table_filter","condition":{"field":"a","op":"=","value":` + value + `}}`
	}
	for _, name := range []string{
		"jwt", "appid", "app_id", "appId", "sid", "session", "session_id", "sessionToken", "cookie", "pass", "passwd", "pwd", "userPin", "code", "otp", "auth",
		"auth_user", "authUser", "authcode", "Authorization", "x-auth", "sig", "signature", "credentials", "private_x", "api_key2", "token_v2", "apikey", "X-Secret-3", "sid2",
	} {
		_, ok := canonicalDocument(programOf(t, get(fmt.Sprintf(`f","params":{%q:"x"}`, name))))
		require.False(t, ok, name)
		_, ok = canonicalDocument(programOf(t, get("f?"+name+`=x"`)))
		require.False(t, ok, name)
	}
	for _, value := range []string{
		"sk-proj-abc123", "pk_live_abcdef", "rk_live_abcdef", "ghp_abcdef123", "gho_abcdef123", "github_pat_11ABCDE", "glpat-abcdef12", "xoxb-1234-abcd", "AKIAIOSFODNN7EXAMPLE",
		"ASIAIOSFODNN7EXAMPLE", "eyJhbGci.eyJzdWIi.x", "AIzaSyA1234567890", "ya29.a0AfH6", "Bearer abcdefgh", "with sk-proj-abc123 in it", "q7Fh2kZp9Xw4Rt6Ly1Bn8Vc3",
		"9f86d081884c7d659a2feaa0c55ad015", "bot123456:AAFabcdef",
	} {
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		for _, steps := range []string{get(`f","params":{"q":` + string(raw) + `}`), get(`f","params":{"q":["a",` + string(raw) + `]}`), compared(string(raw))} {
			_, ok := canonicalDocument(programOf(t, steps))
			require.False(t, ok, steps)
		}
	}
	for _, path := range []string{"bot123456:AAFsecretx/x", "bot123456%3AAAFsecretx/x", "v1/q7Fh2kZp9Xw4Rt6Ly1Bn8Vc3/x"} {
		_, ok := canonicalDocument(programOf(t, get(path+`"`)))
		require.False(t, ok, path)
	}
	for _, steps := range []string{
		get(`f","params":{"dest":"LAX","q":"flights to Rome","author":"Smith","authors":"A","keyword":"x","keywords":"y","country_code":"IT","page":2,"spin":1}`),
		get(`f","params":{"id":"AU164","u":"1a2b3c4d-5e6f-4a7b-8c9d-0e1f2a3b4c5d","region":"ASIA","d":"2026-11-22T04:00:00Z"}`),
		get(`flights-from-berlin-to-rome-2026/departureDateFromBerlinToRome2026"`),
		compared(`"cas://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`),
		`{"step":"join","left":"cas://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","right":"artifact://a","on":"id"}`,
		`{"step":"table_sort","field":"the_bearer_of_news_and_of_tidings_24"}`,
	} {
		_, ok := canonicalDocument(programOf(t, steps))
		require.True(t, ok, steps)
	}
}

// TestStoredSecretsAreLeftOut checks samples that were stored before their secrets were recognised as such.
func TestStoredSecretsAreLeftOut(t *testing.T) {
	good := documentOf(t, `{"step":"http_request","url":"https://h.example/f","params":{"q":"x"}}`)
	raw := textOfDocument(t, good)
	samples := []json.RawMessage{
		json.RawMessage(`[{"params":{"q":"sk-proj-abc123"},"step":"http_request","url":"https://h.example/f"}]`), json.RawMessage(raw),
	}
	require.Equal(t, []document{good}, decodeSamples(samples, shapeOf(t, good)))
}
