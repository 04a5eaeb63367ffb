package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/secret"
)

// sources puts a turnstone.yaml (none when empty) into a folder of its own.
func sources(t testing.TB, file string, env []string, args ...string) app.Sources {
	t.Helper()
	dir := t.TempDir()
	if file != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "turnstone.yaml"), []byte(file), 0o600))
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.AddFlags(flags)
	require.NoError(t, flags.Parse(args))
	return app.Sources{Flags: flags, Env: env, Dir: dir}
}

// faults returns the faults that an error of Load joins.
func faults(err error) (all []*app.Fault) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if f, ok := errors.AsType[*app.Fault](e); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// messages returns the faults as text.
func messages(t testing.TB, err error) []string {
	t.Helper()
	require.Error(t, err)
	var all []string
	for _, f := range faults(err) {
		all = append(all, f.Error())
	}
	return all
}

func TestNothingSaidIsValid(t *testing.T) {
	src := sources(t, "", nil)
	cfg, err := app.Load(src)
	require.NoError(t, err)

	want := app.Default()
	want.DataDir = filepath.Join(src.Dir, ".turnstone")
	want.Storage.BlobURL = app.Secret("file://" + want.DataDir + "/blobs")
	want.LLM.Provider, want.LLM.Model = app.ProviderOffline, "turnstone-offline"
	require.Equal(t, plain(want), plain(*cfg))
	require.Empty(t, cfg.Warnings())
}

// plain shows all fields, secrets included, without the unexported ones.
func plain(cfg app.Config) string {
	encoded, err := json.MarshalIndent(cfg, "", " ")
	return fmt.Sprintf("%s\n%v\n%s %s %s", encoded, err, cfg.Database.URL.Reveal(), cfg.Storage.BlobURL.Reveal(), cfg.LLM.APIKey.Reveal())
}

func TestByteOrderMark(t *testing.T) {
	cfg, err := app.Load(sources(t, "\ufefftemporal: {task_queue: q}", nil))
	require.NoError(t, err)
	require.Equal(t, "q", cfg.Temporal.TaskQueue)
}

func TestPathsBecomeFull(t *testing.T) {
	src := sources(t, "data_dir: state dir\ntemporal: {config_file: t.toml}", nil)
	t.Chdir(src.Dir)
	src.Dir = "."
	cfg, err := app.Load(src)
	require.NoError(t, err)
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "state dir"), cfg.DataDir)
	require.Equal(t, "file://"+dir+"/state%20dir/blobs", cfg.Storage.BlobURL.Reveal())
	require.Equal(t, filepath.Join(dir, "t.toml"), cfg.Temporal.ConfigFile)
}

func TestEachSourceOverridesTheOneBefore(t *testing.T) {
	const file = "turn:\n  queue_length: 2\ndatabase:\n  url: postgres://file/db\ntemporal:\n  namespace: file\n"
	cases := map[string]struct {
		file  string
		env   []string
		args  []string
		path  string
		get   func(*app.Config) any
		value any
		from  string
	}{
		"default":         {path: "turn.queue_length", get: queue, value: 100, from: "default"},
		"file":            {file: file, path: "turn.queue_length", get: queue, value: 2, from: "turnstone.yaml:2"},
		"variable":        {file: file, env: []string{"TURNSTONE_TURN_QUEUE_LENGTH=3"}, path: "turn.queue_length", get: queue, value: 3, from: "TURNSTONE_TURN_QUEUE_LENGTH"},
		"empty variable":  {file: file, env: []string{"TURNSTONE_TURN_QUEUE_LENGTH="}, path: "turn.queue_length", get: queue, value: 2, from: "turnstone.yaml:2"},
		"flag":            {file: file, env: []string{"TURNSTONE_TURN_QUEUE_LENGTH=3"}, args: []string{"--turn-queue-length=4"}, path: "turn.queue_length", get: queue, value: 4, from: "--turn-queue-length"},
		"shared variable": {file: file, env: []string{"DATABASE_URL=postgres://shared/db"}, path: "database.url", get: database, value: "postgres://shared/db", from: "DATABASE_URL"},
		"own before shared": {
			env: []string{"TURNSTONE_DATABASE_URL=postgres://own/db", "DATABASE_URL=postgres://shared/db"}, path: "database.url",
			get: database, value: "postgres://own/db", from: "TURNSTONE_DATABASE_URL",
		},
		"temporal's variable": {
			file: file, env: []string{"TEMPORAL_NAMESPACE=shared"}, path: "temporal.namespace",
			get: func(c *app.Config) any { return c.Temporal.Namespace }, value: "shared", from: "TEMPORAL_NAMESPACE",
		},
		"flag without value": {
			file: "gateway: {enabled: false}", args: []string{"--gateway-enabled"}, path: "gateway.enabled",
			get: func(c *app.Config) any { return c.Gateway.Enabled }, value: true, from: "--gateway-enabled",
		},
		"list": {
			file: "egress: {allow_hosts: [a.example]}", args: []string{"--egress-allow-hosts=b.example,c.example", "--egress-allow-hosts=d.example"},
			path: "egress.allow_hosts", get: func(c *app.Config) any { return c.Egress.AllowHosts },
			value: []string{"b.example", "c.example", "d.example"}, from: "--egress-allow-hosts",
		},
		"duration and comments": {
			file: "# ours\nevents:\n  # half\n  batch_interval: 500ms # not 25\n", path: "events.batch_interval",
			get: func(c *app.Config) any { return c.Events.BatchInterval }, value: 500 * time.Millisecond, from: "turnstone.yaml:4",
		},
		"size with unit": {
			file: "storage: {max_inline_bytes: 2MiB}", path: "storage.max_inline_bytes",
			get: func(c *app.Config) any { return c.Storage.MaxInlineBytes }, value: app.Size(2 << 20), from: "turnstone.yaml:1",
		},
		"size in bytes": {
			file: "storage: {max_inline_bytes: 10485761}", path: "storage.max_inline_bytes",
			get: func(c *app.Config) any { return c.Storage.MaxInlineBytes }, value: app.Size(10485761), from: "turnstone.yaml:1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := app.Load(sources(t, c.file, c.env, c.args...))
			require.NoError(t, err)
			require.Equal(t, c.value, c.get(cfg))
			require.Equal(t, c.from, cfg.Origin(c.path))
		})
	}
}

func queue(c *app.Config) any    { return c.Turn.QueueLength }
func database(c *app.Config) any { return c.Database.URL.Reveal() }

// Every setting goes through variable and flag, so that no field has a type or name that only YAML knows.
func TestEverySettingHasVariableAndFlag(t *testing.T) {
	valid := map[string]string{
		"string": "x", "secret": "x", "bool": "false", "integer": "7", "number": "0.5", "size": "9KiB", "duration": "9s", "list": "a,b",
	}
	for _, s := range app.Settings() {
		require.Contains(t, valid, s.Type, s.Path)
		require.NotEmpty(t, s.Help, s.Path)
		text := valid[s.Type]
		for source, src := range map[string]app.Sources{
			"variable": sources(t, "", []string{s.Env[0] + "=" + text}),
			"flag":     sources(t, "", nil, "--"+s.Flag+"="+text),
		} {
			_, err := app.Load(src)
			for _, f := range faults(err) { // "x" is no address: a rule may refuse what was understood
				require.NotContains(t, f.Message, "cannot be set", "%s by %s", s.Path, source)
				require.NotEmpty(t, f.Path, "%s by %s: %s", s.Path, source, f)
			}
		}
	}
}

func TestFileIsFound(t *testing.T) {
	src := sources(t, "log: {level: debug}", nil)
	other := filepath.Join(src.Dir, "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("log: {level: warn}"), 0o600))

	level := func(s app.Sources, args ...string) string {
		t.Helper()
		with := sources(t, "", nil, args...)
		with.Dir, with.Env = s.Dir, s.Env
		cfg, err := app.Load(with)
		require.NoError(t, err)
		return cfg.Log.Level
	}
	require.Equal(t, "debug", level(src))
	require.Equal(t, "warn", level(src, "--config", "other.yaml"))
	src.Env = []string{"TURNSTONE_CONFIG=" + other}
	require.Equal(t, "warn", level(src))
	require.Equal(t, "debug", level(src, "--config", "turnstone.yaml"))

	_, err := app.Load(sources(t, "", nil, "--config", "missing.yaml"))
	require.ErrorContains(t, err, `read configuration "missing.yaml"`)
	_, err = app.Load(sources(t, "", nil, "--config", "."))
	require.Error(t, err)
	_, err = app.Load(sources(t, strings.Repeat("#", 64<<10+1), nil))
	require.ErrorContains(t, err, "larger than 64 KiB")
}

func TestModelsAndKeys(t *testing.T) {
	t.Run("a key chooses the provider", func(t *testing.T) {
		cfg, err := app.Load(sources(t, "", []string{"ANTHROPIC_API_KEY=sk-a"}))
		require.NoError(t, err)
		require.Equal(t, app.ProviderAnthropic, cfg.LLM.Provider)
		require.NotEmpty(t, cfg.LLM.Model)
		require.Equal(t, "sk-a", cfg.LLM.APIKey.Reveal())
		require.Equal(t, "ANTHROPIC_API_KEY", cfg.Origin("llm.provider"))

		cfg, err = app.Load(sources(t, "", []string{"ANTHROPIC_API_KEY=sk-a", "OPENAI_API_KEY=sk-o"}))
		require.NoError(t, err)
		require.Equal(t, app.ProviderOpenAI, cfg.LLM.Provider)
		require.Equal(t, "gpt-4o", cfg.LLM.Model)
		require.Equal(t, "sk-o", cfg.LLM.APIKey.Reveal())
	})
	t.Run("what is said wins", func(t *testing.T) {
		cfg, err := app.Load(sources(t, "llm: {provider: openai, model: m, api_key: mine}", []string{"OPENAI_API_KEY=shared"}))
		require.NoError(t, err)
		require.Equal(t, "mine", cfg.LLM.APIKey.Reveal())
		cfg, err = app.Load(sources(t, "llm: {provider: offline}", []string{"OPENAI_API_KEY=shared"}))
		require.NoError(t, err)
		require.Empty(t, cfg.LLM.APIKey.Reveal())
	})
	t.Run("further profiles", func(t *testing.T) {
		file := "llm: {provider: offline, temperature: 1, max_tokens: 10}\nmodels:\n" +
			"  - name: big\n    provider: anthropic\n    model: claude\n    output_per_mtok: 15\n" +
			"  - {name: local, provider: ollama, model: qwen, base_url: 'http://127.0.0.1:11434/v1', temperature: 0}\n"
		cfg, err := app.Load(sources(t, file, []string{"ANTHROPIC_API_KEY=sk-a"}))
		require.NoError(t, err)
		require.Len(t, cfg.Models, 2)
		require.Equal(t, "sk-a", cfg.Models[0].APIKey.Reveal())
		require.InDelta(t, 0.1, cfg.Models[0].Temperature, 0)
		require.Equal(t, 4000, cfg.Models[0].MaxTokens)
		require.InDelta(t, 0, cfg.Models[1].Temperature, 0)
		require.Empty(t, cfg.Models[1].APIKey.Reveal())
	})
	t.Run("the base is not changed", func(t *testing.T) {
		base := app.Default()
		base.Models = []app.Model{{Name: "big", LLM: base.LLM}}
		base.Models[0].Provider = app.ProviderAnthropic
		src := sources(t, "", []string{"ANTHROPIC_API_KEY=sk-a"})
		src.Base = &base
		cfg, err := app.Load(src)
		require.NoError(t, err)
		require.Equal(t, "sk-a", cfg.Models[0].APIKey.Reveal())
		require.Empty(t, base.Models[0].APIKey.Reveal())
	})
}

func TestForeignVariablesAreMentioned(t *testing.T) {
	cfg, err := app.Load(sources(t, "", []string{"TURNSTONE_PORT=tcp://10.0.0.1:8080", "TURNSTONE_HTTP_ADR=x", "TURNSTONE_SERVER=y", "TURNSTONE_KEY=z", "TURNSTONE_SECRET_CRM=s", "PATH=/bin"}))
	require.NoError(t, err)
	require.Len(t, cfg.Warnings(), 2)
	require.Contains(t, cfg.Warnings()[0], "TURNSTONE_HTTP_ADR")
}

// Whatever is granted, documents may not name what the runtime reads its own settings from.
func TestOwnVariablesAreNeverGranted(t *testing.T) {
	r, err := secret.New(secret.Config{AllowEnv: []string{"*"}})
	require.NoError(t, err)
	require.NoError(t, r.Allowed(agent.DefaultTenant, "env:CRM_KEY"))
	for _, name := range append(app.Variables(), "PGPASSWORD", "AWS_SECRET_ACCESS_KEY") {
		require.Equal(t, agent.CodeDenied, agent.CodeOf(r.Allowed(agent.DefaultTenant, "env:"+name)), name)
	}
}

func TestLimits(t *testing.T) {
	cfg, err := app.Load(sources(t, "turn: {iterations: 2, model_calls: 3, tool_calls: 0, wall_time: 90m, tokens: 5, cost_usd: 0.5}", nil))
	require.NoError(t, err)
	limits, err := json.Marshal(cfg.Turn.Limits())
	require.NoError(t, err)
	require.JSONEq(t, `{"iterations":2,"model_calls":3,"wall_time_sec":5400,"tokens":5,"cost_usd":0.5}`, string(limits))
}

func TestPrintCanBeReadAgain(t *testing.T) {
	file := "log: {level: \"debug\"}\negress: {allow_hosts: [a.example, '*.b.example']}\ntemporal: {task_queue: \"a # b: 'c' $${x} \\\"\"}\n" +
		"models: [{name: l, provider: ollama, model: m, base_url: http://h/v1}]\nevents: {retention: 90m}\n"
	src := sources(t, file, []string{"TURNSTONE_HTTP_ADDR=127.0.0.1:1"})
	cfg, err := app.Load(src)
	require.NoError(t, err)
	var first bytes.Buffer
	require.NoError(t, cfg.Print(&first))
	require.Contains(t, first.String(), "  addr: \"127.0.0.1:1\"  # TURNSTONE_HTTP_ADDR\n")
	require.Contains(t, first.String(), "  retention: 1h30m  # turnstone.yaml:5\n")
	require.Contains(t, first.String(), "  queue_length: 100\n")

	// The blob folder was filled in, and is a secret all the same; its path shows, so that it reads back equal.
	again, err := app.Load(sources(t, first.String(), nil))
	require.NoError(t, err)
	require.Equal(t, plain(*cfg), plain(*again))
	require.Equal(t, "a # b: 'c' ${x} \"", again.Temporal.TaskQueue)
}
