package app_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

const secretful = `
database: {url: "postgres://jane:sword%2Ffishes-1@db.example/app?sslmode=disable&sslpassword=halibuts-2"}
storage: {blob_url: "s3://bucket?region=eu-north-1&access_key=herrings-3"}
llm: {provider: openai, api_key: mackerels-4}
models: [{name: other, provider: anthropic, api_key: sardines-5}]
jobs: {redis_url: "redis://:anchovies-6@cache.example/0"}
auth: {operator_key: "turbots-7-turbots-7-turbots-7-turbots-7"}
telegram: {token: "12345678:flounders-8"}
tools: {mcp: {servers: [{name: s, command: c, env: ["SOME_TOKEN=haddocks-9", "LANG=norwegian-10"]}]}}
`

// Every secret of the configuration and of the environment is known to the log, and nothing besides.
func TestSecrets(t *testing.T) {
	env := []string{"TEMPORAL_API_KEY=pollocks-11", "PROXY=http://u:whitings-12@proxy:3128", "PWD=/home/jane-13", "GREETING=hello-14", "OTHER_KEY=dorades-15", "EMPTY_TOKEN="}
	cfg, err := app.Load(sources(t, secretful, env))
	require.NoError(t, err)
	known := app.Secrets(cfg, env)
	for _, want := range []string{
		"sword/fishes-1", "halibuts-2", "herrings-3", "mackerels-4", "sardines-5", "anchovies-6", "turbots-7-turbots-7-turbots-7-turbots-7", "12345678:flounders-8", "haddocks-9",
		"pollocks-11", "whitings-12", "dorades-15",
	} {
		require.Contains(t, known, want)
	}
	for _, public := range []string{"db.example", "eu-north-1", "norwegian-10", "/home/jane-13", "hello-14", "postgres", "default", "bucket"} {
		require.NotContains(t, strings.Join(known, "\n"), public)
	}
	cfg.Database.URL = `host=db user=jane password='cod fish-16' dbname=app`
	require.Contains(t, app.Secrets(cfg, nil), "cod fish-16")
	cfg.Database.URL = `host=db user=jane password=codfish-17 dbname=app`
	require.Contains(t, app.Secrets(cfg, nil), "codfish-17")
}

// What the Temporal SDK logs, by whichever of its loggers, goes through the same redaction.
func TestTemporalLogger(t *testing.T) {
	const email = "jane.doe" + "@" + "mail.example"
	r, err := app.Redactor([]string{"email"}, planted, "pollocks-11")
	require.NoError(t, err)
	for _, format := range []string{"json", "console"} {
		var b bytes.Buffer
		l, err := logs.New(logs.Config{Level: "info", Format: format, Output: zapcore.AddSync(&b), Redactor: r})
		require.NoError(t, err)
		temporal := app.TemporalLogger(l)
		temporal.Error("failed "+planted, "Error", errors.New("call with "+planted), "TaskToken", []byte("pollocks-11"), "k", map[string]any{"a": []string{email}}, email, 1)
		sdklog.With(temporal, "WorkflowID", planted, "Namespace", email).Warn("attempt", "Attempt", 2)
		sdklog.With(sdklog.Skip(temporal, 1), "k", struct{ Password string }{"swordfishes"}).Info("odd", "one")
		text := b.String()
		for _, secret := range []string{planted, "pollocks-11", email, "swordfishes"} {
			require.NotContains(t, text, secret)
		}
		require.Contains(t, text, "failed [redacted]")
		require.Equal(t, 3, strings.Count(text, "temporal"))
		require.Equal(t, format == "console", strings.Count(text, "\n") == 3 && !strings.Contains(text, "stacktrace"))
	}
}

func TestLoggerRefuses(t *testing.T) {
	t.Parallel()
	_, err := app.Logger(app.Log{Level: "loud", Format: "json"})
	require.ErrorContains(t, err, "log.level: ")
	_, err = app.Logger(app.Log{Level: "info", Format: "xml"})
	require.ErrorContains(t, err, "log.format: ")
	l, err := app.Logger(app.Log{Level: "error", Format: "console"}, "s3cret")
	require.NoError(t, err)
	require.NotNil(t, l)
}
