package logs_test

import (
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// FuzzSecret checks that a known secret is redacted in any text, in any encoding and in any value of an entry. Other secrets are redacted if they are
// separate words.
func FuzzSecret(f *testing.F) {
	for kind := range plantedSecrets() {
		f.Add(kind, "before ", " after", uint16(0))
	}
	for _, around := range []string{"", `\`, "%", "&", `"`, `\\u00`, "[redacted]", "password=", `{"a":"`, "=", "-----BEGIN PRIVATE KEY", "Bearer ", "@", "4111 ", "\xff", "eyJ"} {
		f.Add("known", around, around, uint16(16<<10-3))
		f.Add("jwt", around, around, uint16(16<<10-40))
	}
	f.Fuzz(func(t *testing.T, kind, before, after string, padding uint16) {
		p, ok := plantedSecrets()[kind]
		if !ok {
			kind, p = "known", plantedSecrets()["known"]
		}
		secret, text := p[1], p[0]
		if strings.Contains(before+after, secret) {
			return
		}
		spellings := []string{text}
		if kind == "known" {
			quoted, err := json.Marshal(text)
			require.NoError(t, err)
			spellings = append(spellings, strings.Trim(string(quoted), `"`), url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text))
		} else {
			before, after = before+"\n ", " \n"+after
		}
		if lead := strings.Repeat(". ", int(padding)/2); len(lead) > len(before) {
			before = lead[len(before):] + before
		}
		r := redactor(t, knownSecret)
		for _, s := range spellings {
			out := r.Text(before + s + after)
			for _, form := range []string{secret, s} {
				if form == text && kind != "known" {
					form = secret
				}
				require.NotContains(t, out, form, "%q", before)
			}
			require.LessOrEqual(t, len(out), 3*(16<<10)+100)
		}
		out := logText(t, logs.FormatJSON, "debug", func(l *zap.Logger) {
			l.With(zap.String("k", before+text)).Info(before+text+after, zap.Any("k", map[string]any{"a": []string{text + after}}), zap.String(text, after), zap.Any("k", []byte(text)))
		})
		require.True(t, json.Valid([]byte(out)), "%s", out)
		requireNoSecret(t, out, secret, kind)
	})
}
