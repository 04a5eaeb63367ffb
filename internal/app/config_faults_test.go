package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

func TestEveryFaultIsListed(t *testing.T) {
	file := `htp: {addr: x}
http:
  addr: 8080
  max_body_bytes: lots
  allowed_hosts: example.com
grpc: [1]
gateway: {enabled: "yes"}
database:
  max_conns: 1.5
  url: ${NOWHERE}
events: {log: kafka, batch_interval: 25}
turn:
  queue_length: "12"
  wall_time:
llm: {provider: offline, temperature: 9}
models:
  - {name: default, provider: ollama, model: m}
  - {name: x, provider: Bard, nmae: y}
egress: {allow_private: ["10.0.0.0/99"]}
storage: &anchor {}
`
	_, err := app.Load(sources(t, file, []string{"TURNSTONE_LOG_LEVEL=loud", "TURNSTONE_SHUTDOWN_TIMEOUT=soon"}, "--grpc-addr=nowhere", "--turn-tool-calls=many"))
	require.Equal(t, []string{
		"turnstone.yaml:1: htp: unknown setting",
		"turnstone.yaml:3: http.addr: want a text, got a number",
		"turnstone.yaml:4: http.max_body_bytes: want a size in bytes such as 1048576 or 10MiB",
		"turnstone.yaml:5: http.allowed_hosts: want a list, got a text",
		"turnstone.yaml:6: grpc: want a mapping, got a list",
		"turnstone.yaml:7: gateway.enabled: want true or false, got a text",
		"turnstone.yaml:9: database.max_conns: want a whole number, got a number",
		"turnstone.yaml:10: database.url: variable NOWHERE is not set and has no default",
		"turnstone.yaml:11: events.batch_interval: want a duration such as 30s or 1h30m, got a number",
		"turnstone.yaml:13: turn.queue_length: want a whole number, got a text",
		"turnstone.yaml:14: turn.wall_time: want a duration such as 30s or 1h30m, got nothing",
		"turnstone.yaml:18: models[1].nmae: unknown setting",
		"turnstone.yaml:20: storage: want a mapping, got a tag, an anchor or an alias, which are not supported",
		"TURNSTONE_SHUTDOWN_TIMEOUT: shutdown_timeout: want a duration such as 30s or 1h30m",
		"--turn-tool-calls: turn.tool_calls: want a whole number",
		`--grpc-addr: grpc.addr: want host:port, got "nowhere"`,
		`turnstone.yaml:11: events.log: want one of postgres, memory, got "kafka"`,
		"turnstone.yaml:15: llm.temperature: want 0 to 2, got 9",
		`TURNSTONE_LOG_LEVEL: log.level: want one of debug, info, warn, error, got "loud"`,
		`turnstone.yaml:17: models[0].name: "default" is taken`,
		`turnstone.yaml:18: models[1].provider: want a name such as openai: lower case letters, digits and dashes, got "Bard"`,
		`turnstone.yaml:19: egress.allow_private[0]: "10.0.0.0/99": ` + egressMessage(t, err),
	}, messages(t, err))
}

// egressMessage is the part that the egress client words.
func egressMessage(t *testing.T, err error) string {
	t.Helper()
	for _, m := range messages(t, err) {
		if _, rest, ok := strings.Cut(m, `"10.0.0.0/99": `); ok {
			return rest
		}
	}
	return ""
}

func TestOneFault(t *testing.T) {
	cases := map[string]struct {
		file string
		env  []string
		want string
	}{
		"malformed":              {"http: {", nil, "turnstone.yaml:1: malformed YAML"},
		"key given twice":        {"log: {level: info}\nlog: {level: warn}", nil, "turnstone.yaml:2: malformed YAML"},
		"two documents":          {"log: {}\n---\nlog: {}", nil, "want one YAML document"},
		"a list":                 {"- log", nil, "want a mapping, got a list"},
		"a word":                 {"hello", nil, "want a mapping, got a text"},
		"alias":                  {"log: {level: *x}", nil, "log.level: want a text, got a tag, an anchor or an alias"},
		"tag":                    {"log: {level: !!str info}", nil, "log.level: want a text, got a tag"},
		"merge key":              {"log: {<<: {level: info}}", nil, "log: want a name as key"},
		"numeric key":            {"1: 2", nil, "want a name as key, got a number"},
		"inline is no name":      {"models: [{name: n, provider: ollama, model: m, '': 1}]", nil, "unknown setting"},
		"malformed reference":    {"log: {level: '${-x}'}", nil, "log.level: malformed ${…}"},
		"reference to no number": {"database: {max_conns: '${N}'}", []string{"N=ten"}, "turnstone.yaml:1: database.max_conns: want a whole number"},
		"granted variable":       {"catalog: {secret_env: [ACME_*, 'acme=A B']}", nil, `turnstone.yaml:1: catalog.secret_env[1]: want NAME, PREFIX*, tenant=NAME or tenant=PREFIX*, got "acme=A B"`},
		"granted folder":         {"catalog: {secret_folders: ['acme=keys']}", nil, `turnstone.yaml:1: catalog.secret_folders[0]: want an absolute path, or tenant=/path, got "acme=keys"`},
		"size overflow":          {"http: {max_body_bytes: 9999999999999999999999}", nil, "http.max_body_bytes"},
		"size negative":          {"http: {max_body_bytes: -5}", nil, "http.max_body_bytes: want 1KiB to 1GiB, got -5"},
		"memory without gateway": {"events: {log: memory}\ngateway: {enabled: false}", nil, "turnstone.yaml:1: events.log: memory serves one process only"},
		"memory without worker":  {"events: {log: memory}\nworker: {enabled: false}", nil, "turnstone.yaml:1: events.log: memory serves one process only"},
		"relay without port":     {"events: {relay: {address: localhost}}", nil, `turnstone.yaml:1: events.relay.address: want host:port, got "localhost"`},
		"relay advertised":       {"events: {relay: {advertise: 'worker:0'}}", nil, `turnstone.yaml:1: events.relay.advertise: want a port from 1 to 65535, got "0"`},
		"neither door nor work":  {"gateway: {enabled: false}\nworker: {enabled: false}", nil, "turnstone.yaml:2: worker.enabled: is false and gateway.enabled is false"},
		"followed":               {"catalog: {follow: {url: 'https://k:x@h'}}", nil, "turnstone.yaml:1: catalog.follow.url: want an http or https URL without credentials"},
		"iterations":             {"turn: {iterations: -1}", nil, "turnstone.yaml:1: turn.iterations: want 0 to 10000, got -1"},
		"message above body":     {"http: {max_body_bytes: 1MiB}\nturn: {max_message_bytes: 2MiB}", nil, "turnstone.yaml:2: turn.max_message_bytes: is above http.max_body_bytes (1MiB)"},
		"same address":           {"grpc: {addr: '127.0.0.1:8080'}", nil, "grpc.addr: is 127.0.0.1:8080, which is http.addr as well"},
		"half versioned":         {"temporal: {worker_versioning: {build_id: x}}", nil, "temporal.worker_versioning: want deployment and build_id together"},
		"no key":                 {"llm: {provider: openai}", nil, "llm.api_key: is required for openai"},
		"no model for ollama":    {"llm: {provider: ollama}", nil, "llm.model: is required"},
		"no model for base url":  {"llm: {base_url: 'http://h/v1'}", nil, "llm.model: is required"},
		"key in base url":        {"llm: {base_url: 'https://k@h/v1', model: m}", nil, "llm.base_url: must not hold credentials"},
		"key with line break":    {"", []string{"OPENAI_API_KEY=sk-1\n"}, "OPENAI_API_KEY: llm.api_key: holds a space"},
		"not finite":             {"turn: {cost_usd: .nan}", nil, "turn.cost_usd: want a number, got one that is not finite"},
		"not a number":           {"llm: {temperature: '${T}'}", []string{"T=NaN"}, "llm.temperature: want 0 to 2, got NaN"},
		"foreign database":       {"", []string{"DATABASE_URL=mysql://h/db"}, "DATABASE_URL: database.url: want postgres://"},
		"origin with path":       {"http: {allowed_origins: ['https://a.example/x']}", nil, "http.allowed_origins[0]: want scheme://host"},
		"host with port":         {"http: {allowed_hosts: ['a.example:1']}", nil, "http.allowed_hosts[0]: want a host name"},
		"parts of seconds":       {"turn: {wall_time: 1500ms}", nil, "turn.wall_time: want whole seconds"},
		"temporal address":       {"temporal: {address: 'temporal:0'}", nil, "temporal.address: want a port from 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := app.Load(sources(t, c.file, c.env))
			all := messages(t, err)
			require.Len(t, all, 1, "%q", all)
			require.Contains(t, all[0], c.want)
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, err := app.Load(sources(t, strings.Repeat("- x\n", 10)+"", nil))
	require.Len(t, messages(t, err), 1)
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	_, err = app.Load(sources(t, b.String(), nil))
	all := messages(t, err)
	require.Len(t, all, 101)
	require.Equal(t, "and 400 more faults", all[100])
}

func TestExpansion(t *testing.T) {
	env := []string{"A=one", "EMPTY=", "NESTED=${A}", "N=7", "B=false", "D=2s", "F=0.25", "S=3KiB"}
	cases := map[string]string{
		"${A}": "one", "x-${A}-${A}": "x-one-one", "${NO:-two}": "two", "${EMPTY:-two}": "two", "${NO:-}q": "q", "q${EMPTY}": "q",
		"${NESTED}": "${A}", "$${A}": "${A}", "$A $ 5$": "$A $ 5$", "$$A": "$$A", "${NO:-a:-b}": "a:-b",
	}
	for in, want := range cases {
		cfg, err := app.Load(sources(t, "temporal: {task_queue: '"+in+"'}", env))
		require.NoError(t, err, in)
		require.Equal(t, want, cfg.Temporal.TaskQueue, in)
	}

	file := "database: {max_conns: '${N}'}\ngateway: {enabled: \"${B}\"}\negress:\n  timeout: ${D}\n  allow_hosts: [\"${A}.example\"]\n" +
		"llm: {temperature: '${F}'}\nhttp: {max_body_bytes: '${S}'}\nturn: {max_message_bytes: '${S}'}\n" +
		"models: [{name: '${A}', provider: ollama, model: |-\n  ${A}\n  }]\n"
	_, err := app.Load(sources(t, file, env))
	require.Error(t, err, "a block text inside a flow mapping is malformed")
	head, _, _ := strings.Cut(file, "models")
	file = head + "models:\n  - name: ${A}\n    provider: ollama\n    model: |-\n      ${A}\n"
	cfg, err := app.Load(sources(t, file, env))
	require.NoError(t, err)
	require.Equal(t, 7, cfg.Database.MaxConns)
	require.False(t, cfg.Gateway.Enabled)
	require.Equal(t, "2s", cfg.Egress.Timeout.String())
	require.Equal(t, []string{"one.example"}, cfg.Egress.AllowHosts)
	require.InDelta(t, 0.25, cfg.LLM.Temperature, 0)
	require.Equal(t, app.Size(3<<10), cfg.HTTP.MaxBodyBytes)
	require.Equal(t, "one", cfg.Models[0].Model)

	_, err = app.Load(sources(t, "database: {url: 'postgres://u:${P1}@h/${P2}'}", nil))
	require.ErrorContains(t, err, "variable P1 is not set and has no default; variable P2 is not set")
}

// planted is a secret as one would recognise it in any output.
const planted = "hunter2"

func TestSecretsNeverShow(t *testing.T) {
	file := `database: {url: "postgres://app:hunter2@db:5432/app?sslmode=require&password=hunter2"}
storage: {blob_url: "s3://bucket/p?region=eu&secret=hunter2&hunter2"}
llm: {provider: openai, model: m, api_key: hunter2, base_url: "https://proxy.example/v1?key=hunter2"}
models: [{name: n, provider: anthropic, model: m, api_key: hunter2}]
`
	cfg, err := app.Load(sources(t, file, nil))
	require.NoError(t, err)
	require.Equal(t, planted, cfg.LLM.APIKey.Reveal())

	var printed, logged bytes.Buffer
	require.NoError(t, cfg.Print(&printed))
	require.Contains(t, printed.String(), `"postgres://app:[redacted]@db:5432/app?sslmode=[redacted]&password=[redacted]"`)
	require.Contains(t, printed.String(), `"s3://bucket/p?region=[redacted]&secret=[redacted]&[redacted]"`)
	for _, h := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(h).Info("x", "key", cfg.LLM.APIKey, "url", cfg.Database.URL, "database", cfg.Database)
	}
	encoded, err := json.Marshal([]any{cfg.Database, cfg.Storage, cfg.Models[0].APIKey, cfg.Redacted()})
	require.NoError(t, err)
	texts := []string{printed.String(), logged.String(), string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, cfg.LLM.APIKey), fmt.Sprintf(verb, cfg.Database), fmt.Sprintf(verb, cfg.Models[0].APIKey))
	}
	for _, text := range texts {
		require.NotContains(t, text, planted)
		require.NotContains(t, text, fmt.Sprintf("%x", planted))
	}
	require.Equal(t, planted, cfg.Models[0].APIKey.Reveal(), "redaction works on a copy")
}

func TestSecretsNeverShowInForms(t *testing.T) {
	for _, dsn := range []string{
		"host=db user=app password=hunter2", "postgres://hunter2@db/app", "postgres://app:hunter2%zz@db/app", "postgres:hunter2", "hunter2",
	} {
		shown := app.Config{Database: app.Database{URL: app.Secret(dsn)}}.Redacted()
		require.NotContains(t, shown.Database.URL.Reveal(), planted, dsn)
		require.NotEmpty(t, shown.Database.URL.Reveal())

		// As a fault, from every source.
		for _, value := range []string{dsn, "mysql://" + dsn} {
			for _, src := range []app.Sources{
				sources(t, "database: {url: \""+value+"\"}", nil), sources(t, "", []string{"DATABASE_URL=" + value}), sources(t, "", nil, "--database-url", value),
			} {
				if _, err := app.Load(src); err != nil {
					require.NotContains(t, err.Error(), planted)
				}
			}
		}
	}
	// The library's messages would quote the lines around a fault.
	_, err := app.Load(sources(t, "llm:\n  api_key: hunter2\n  model: [\n", nil))
	require.NotContains(t, strings.Join(messages(t, err), " "), planted)
	_, err = app.Load(sources(t, "llm:\n  api_key: [hunter2]\nlog: hunter2\n", nil))
	require.NotContains(t, strings.Join(messages(t, err), " "), planted)
}

// docs/reference/configuration.md names each setting with its variables, flag, type, default and help.
func TestThePageIsComplete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.SplitSeq(string(page), "\n") {
		if after, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(after, "`")
			rows[name] = line
		}
	}
	for _, s := range app.Settings() {
		require.Equal(t, row(s), rows[s.Path])
		delete(rows, s.Path)
	}
	for field := range reflect.TypeFor[app.LLM]().Fields() {
		name := field.Tag.Get("yaml")
		require.Contains(t, string(page), "`llm."+name+"`")
	}
	require.Contains(t, string(page), "`models`")
	require.Empty(t, rows, "rows without a setting")
}

func row(s app.Setting) string {
	value := "–"
	if s.Default != "" {
		value = "`" + s.Default + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | `%s` | %s |", s.Path, s.Type, value, strings.Join(s.Env, "` `"), s.Help)
}

func FuzzYAML(f *testing.F) {
	f.Add("http:\n  addr: 127.0.0.1:0\nmodels:\n  - {name: a, provider: ollama, model: '${M:-x}'}\n")
	f.Add("a: &x {b: *x}\n<<: !!str |\n  y\n? z\n: [1, {2: 3}]\n---\n...")
	f.Add("llm: {temperature: .inf, max_tokens: 0x10, api_key: \"\\u0000\"}\nlog:\n  level: >-\n\n")
	flags := sources(f, "", nil).Flags
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "turnstone.yaml"), []byte(file), 0o600))
		cfg, err := app.Load(app.Sources{Flags: flags, Dir: dir})
		if err != nil {
			require.NotEmpty(t, faults(err), "%v", err)
			return
		}
		var printed bytes.Buffer
		require.NoError(t, cfg.Print(&printed))
		if strings.Contains(printed.String(), "[redacted]") {
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "turnstone.yaml"), printed.Bytes(), 0o600))
		again, err := app.Load(app.Sources{Dir: dir})
		require.NoError(t, err, "%s", printed.String())
		require.Equal(t, plain(*cfg), plain(*again))
	})
}
