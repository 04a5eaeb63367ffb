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

// A secret that is known does not come out of any text, however it is written there and wherever a value of the entry has it; one that
// is recognised does not either, where it stands by itself.
func FuzzSecret(f *testing.F) {
	for what := range planted() {
		f.Add(what, "before ", " after", uint16(0))
	}
	for _, around := range []string{"", `\`, "%", "&", `"`, `\\u00`, "[redacted]", "password=", `{"a":"`, "=", "-----BEGIN PRIVATE KEY", "Bearer ", "@", "4111 ", "\xff", "eyJ"} {
		f.Add("known", around, around, uint16(16<<10-3))
		f.Add("jwt", around, around, uint16(16<<10-40))
	}
	f.Fuzz(func(t *testing.T, what, before, after string, padding uint16) {
		p, ok := planted()[what]
		if !ok {
			what, p = "known", planted()["known"]
		}
		secret, text := p[1], p[0]
		if strings.Contains(before+after, secret) {
			return
		}
		spellings := []string{text}
		if what == "known" {
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
			for _, kept := range []string{secret, s} {
				if kept == text && what != "known" {
					kept = secret
				}
				require.NotContains(t, out, kept, "%q", before)
			}
			require.LessOrEqual(t, len(out), 3*(16<<10)+100)
		}
		out := written(t, logs.FormatJSON, "debug", func(l *zap.Logger) {
			l.With(zap.String("k", before+text)).Info(before+text+after, zap.Any("k", map[string]any{"a": []string{text + after}}), zap.String(text, after), zap.Any("k", []byte(text)))
		})
		require.True(t, json.Valid([]byte(out)), "%s", out)
		clean(t, out, secret, what)
	})
}
