package logs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/middleware/pii"
	"github.com/turnstone-run/turnstone/internal/redact"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// These texts must not be logged. They are concatenated, so that scanners do not report them as real secrets.
const (
	knownSecret = `Kn0wn/se+cret"7&`
	longDigits  = "0123456789"
	tail        = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
	card        = "4111111111111111"
	email       = "jane.doe" + "@" + "mail.example"
)

// plantedSecrets returns secrets by their kind: a text to log, and the part that must not be logged.
func plantedSecrets() map[string][2]string {
	jwt := "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + tail
	pem := "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow" + tail + "\n" + tail + "\n-----END RSA " + "PRIVATE KEY-----"
	one := func(s string) [2]string { return [2]string{s, s} }
	return map[string][2]string{
		"known":              one(knownSecret),
		"bearer":             {"Bearer " + tail, tail},
		"bearer in a URL":    {"bearer%20" + tail, tail},
		"basic":              {"Basic " + "amFuZTpzd29yZGZpc2g=", "amFuZTpzd29yZGZpc2g"},
		"header":             {"Authorization: Bearer swordfishes", "swordfishes"},
		"headers":            {`map[Accept:[*/*] Authorization:[Bearer swordfishes] X-Api-Key:[abc]]`, "swordfishes"},
		"cookie":             {"Cookie: sid=swordfishes; theme=halibuts", "halibuts"},
		"turnstone key":      one("tsk" + "_abcdefgh23456722_" + tail),
		"sk key":             one("sk" + "-proj-" + tail),
		"slack key":          one("xoxb" + "-123456789012-" + tail),
		"github key":         one("ghp" + "_" + tail),
		"github fine key":    one("github_pat" + "_" + tail),
		"aws key":            one("AKIA" + "IOSFODNN7EXAMPLE"),
		"google key":         one("AIza" + tail),
		"jwt":                one(jwt),
		"jwt without parts":  one("ey" + "JhbGciOiJub25lIn0.ey" + "JzdWIiOiIxIn0."),
		"private key":        {pem, tail},
		"private key, begun": {strings.Split(pem, "-----END")[0], tail},
		"private key, JSON":  {strings.ReplaceAll(pem, "\n", `\n`), tail},
		"URL":                {"postgres://jane:swordfishes@db.example:5432/app", "swordfishes"},
		"URL with a slash":   {"postgres://jane:sword/fishes@db.example:5432/app", "fishes"},
		"URL with a token":   {"https://" + "halibuts@git.example/a.git", "halibuts"},
		"DSN":                {"host=db user=jane password=swordfishes dbname=app", "swordfishes"},
		"DSN, quoted":        {`host=db password='sword fishes' dbname=app`, "fishes"},
		"query":              {"https://api.example/v1?page=2&api_key=swordfishes&q=a", "swordfishes"},
		"query in a query":   {"https://api.example/v1?next=%2Fa%3Ftoken%3Dswordfishes%26q%3Da", "swordfishes"},
		"JSON":               {`{"user":"jane","password":"sword \"fishes","n":1}`, "fishes"},
		"JSON in JSON":       {`{"body":"{\"client_secret\": \"swordfishes\"}"}`, "swordfishes"},
		"YAML":               {"token: swordfishes", "swordfishes"},
		"environment":        {"PATH=/bin OPENAI_API_KEY=swordfishes HOME=/", "swordfishes"},
		"struct":             {"{Name:jane Password:swordfishes}", "swordfishes"},
		"telegram":           {"https://api.telegram.org/bot12345678:" + tail + "/sendMessage", tail},
		"email":              one(email),
		"email in a URL":     {strings.ReplaceAll(email, "@", "%40"), strings.ReplaceAll(email, "@", "%40")},
		"card":               one(card),
		"card, grouped":      one("4111 1111 1111 1111"),
	}
}

func redactor(t testing.TB, secrets ...string) *redact.Redactor {
	rules := redact.Rules{Secrets: secrets}
	for _, kind := range []string{pii.TypeEmail, pii.TypeCreditCard} {
		rule, err := pii.NewRule(pii.RuleConfig{Type: kind})
		require.NoError(t, err)
		rules.Personal = append(rules.Personal, rule)
	}
	return redact.New(rules)
}

// logText returns what a logger writes.
func logText(t testing.TB, format, level string, log func(l *zap.Logger)) string {
	var b bytes.Buffer
	l, err := logs.New(logs.Config{Level: level, Format: format, Output: zapcore.AddSync(&b), Redactor: redactor(t, knownSecret, "98765432109")})
	require.NoError(t, err)
	log(l)
	return b.String()
}

// logEntry returns the only entry that a logger writes.
func logEntry(t testing.TB, log func(l *zap.Logger)) map[string]any {
	text := logText(t, logs.FormatJSON, "debug", log)
	require.Equal(t, 1, strings.Count(text, "\n"), "%s", text)
	m := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(text), &m), "%s", text)
	return m
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := logs.New(logs.Config{Level: "loud", Format: "json", Output: zapcore.AddSync(&bytes.Buffer{}), Redactor: redactor(t)})
	require.ErrorContains(t, err, "log.level: ")
	_, err = logs.New(logs.Config{Level: "info", Format: "xml", Output: zapcore.AddSync(&bytes.Buffer{}), Redactor: redactor(t)})
	require.ErrorContains(t, err, "log.format: want json or console")
}

// Texts without secrets are not changed.
func TestTextsWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := redactor(t, knownSecret, "postgres", "tiny", "turnstone")
	for _, text := range []string{
		"", "a", "turn finished", "llm.api_key: is empty: set OPENAI_API_KEY", "token: missing, see docs", "input_tokens=512 output_tokens: 12",
		"http://localhost:8080/v1/turns?after=12", "redis://cache.example:6379/0", "git@example", "https://example.com/@jane/12",
		"basic authentication failed", "bearer authentication", "Bearer token wanted", "task-management", "risk_assessment_2024_for_everybody",
		"sk-learn", "desk-2024-of-everything-else", "password", "password=", `{"password":null,"tokens":12}`, "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
		"postgres and turnstone and tiny", "4111111111111112", "1754380800123456789", "dial tcp [::1]:5432: connection refused", "12:30:45.123",
		`C:\Users\jane`, "50% of 100%", "a&b", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "eyJ", "eyJhbGciOiJIUzI1NiJ9",
		"the token \"abc\" was unexpected", "tool_tokens_total", "api_key_ref: env:KEY", "http://[::1]:8080/a@b", "e-mail at 10@noon",
		"goroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1d", "日本語のログ", "\xff\xfe broken",
	} {
		require.Equal(t, text, r.Text(text))
	}
}

// Only secrets are redacted.
func TestText(t *testing.T) {
	t.Parallel()
	r := redactor(t, knownSecret)
	for text, want := range map[string]string{
		"postgres://jane:swordfishes@db.example/app?x=1":        "postgres://jane:[redacted]@db.example/app?x=1",
		"https://" + "halibuts@git.example/a.git":               "https://[redacted]@git.example/a.git",
		"https://api.example/v1?page=2&api_key=swordfishes&q=a": "https://api.example/v1?page=2&api_key=[redacted]&q=a",
		`{"password":"sword \"fishes","n":1}`:                   `{"password":"[redacted]","n":1}`,
		`{\"password\":\"sword \\\"fishes\",\"n\":1}`:           `{\"password\":\"[redacted]\",\"n\":1}`,
		"Authorization: Bearer abc, next":                       "Authorization: [redacted], next",
		"get bot12345678:" + tail + "/me":                       "get bot12345678:[redacted]/me",
		"mail " + email + " now":                                "mail [REDACTED_EMAIL] now",
		"card " + card + ".":                                    "card [REDACTED_CREDIT_CARD].",
		"password=[redacted] x":                                 "password=[redacted] x",
		"(token=swordfishes)":                                   "(token=[redacted])",
		"x" + knownSecret + "y":                                 "x[redacted]y",
		`Kn0wn%2Fse%2Bcret%227%26 and Kn0wn\/se+cret\"7\u0026`:  "[redacted] and [redacted]",
		"map[Authorization:[Bearer swordfishes] Accept:[*/*]]":  "map[Authorization:[redacted] Accept:[*/*]]",
	} {
		require.Equal(t, want, r.Text(text))
		require.Equal(t, want, r.Text(want), "again")
	}
	for kind, p := range plantedSecrets() {
		for _, text := range []string{p[0], "before " + p[0], p[0] + " after", "\n\t" + p[0] + "\n", "(" + p[0] + ")", `"` + p[0] + `"`} {
			require.NotContains(t, r.Text(text), p[1], kind)
		}
	}
}

// Secrets are redacted within encoded texts.
func TestEncodedSecrets(t *testing.T) {
	t.Parallel()
	r := redactor(t, knownSecret)
	for _, before := range []string{"", "a", "ab", "abc", "user:"} {
		for _, after := range []string{"", "x", "xy"} {
			plain := []byte(before + knownSecret + after)
			for _, text := range []string{base64.StdEncoding.EncodeToString(plain), base64.RawURLEncoding.EncodeToString(plain), hex.EncodeToString(plain), fmt.Sprintf("%X", plain)} {
				require.Contains(t, r.Text("it is "+text), "[redacted]", "%s", text)
			}
		}
	}
}

// All fields in a namespace with a secret name are redacted.
func TestSecretNamespace(t *testing.T) {
	t.Parallel()
	for _, log := range []func(l *zap.Logger){
		func(l *zap.Logger) {
			l.Info("m", zap.Namespace("password"), zap.String("k", "swordfishes"), zap.Int("i", 77), zap.Any("a", 77))
		},
		func(l *zap.Logger) {
			l.With(zap.Namespace("password")).With(zap.String("k", "swordfishes")).Info("m", zap.Int("i", 77), zap.Any("a", 77))
		},
	} {
		require.Equal(t, "[redacted]", logEntry(t, log)["password"])
	}
	m := logEntry(t, func(l *zap.Logger) {
		l.Info("m", zap.Dict("d", zap.Namespace("token"), zap.String("k", "swordfishes")), zap.String("k", "v"))
	})
	require.Equal(t, map[string]any{"token": "[redacted]"}, m["d"])
	require.Equal(t, "v", m["k"])
}

func TestNames(t *testing.T) {
	t.Parallel()
	secret := []string{
		"password", "Password", "db_password", "PGPASSWORD", "token", "accessToken", "access-token", "authorization", "Proxy-Authorization", "apiKey", "api_key",
		"X-Api-Key", "llm.api_key", "cookie", "Set-Cookie", "client_secret", "secret", "private_key", "aws_secret_access_key", "passphrase", "jwt", "dsn",
		"connection_string", "credentials", "passwordVerbose", "tokens", "operator_key", "webhook_secret", "password_hash", "X-Amz-Signature", "sig",
	}
	for _, name := range secret {
		m := logEntry(t, func(l *zap.Logger) {
			l.Info("m", zap.String(name, "swordfishes"), zap.Strings(name, []string{"swordfishes"}))
		})
		require.Equal(t, "[redacted]", m[name], name)
	}
	for _, name := range []string{"key", "turn", "token_count", "secret_name", "author", "monkey", "keyboard", "tokenizer", "id", "", "p", "design", "hash", "error", "größe"} {
		m := logEntry(t, func(l *zap.Logger) { l.Info("m", zap.String(name, "swordfishes")) })
		require.Equal(t, "swordfishes", m[name], name)
	}
	m := logEntry(t, func(l *zap.Logger) {
		l.Info("m", zap.Int("input_tokens", 12), zap.Int("token", 12), zap.Any("usage", map[string]int{"output_tokens": 3, "password": 4}))
	})
	require.Equal(t, []any{12.0, "[redacted]", map[string]any{"output_tokens": 3.0, "password": "[redacted]"}}, []any{m["input_tokens"], m["token"], m["usage"]})
}
