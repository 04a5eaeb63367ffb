package cli

import (
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// home is this package's folder, which a test may leave.
var home, _ = os.Getwd()

// golden compares with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(home, "testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// terminal is where a command writes; both streams come in order, as on a real one.
type terminal struct {
	mu    sync.Mutex
	all   strings.Builder
	plain strings.Builder // standard output alone
}

type stream struct {
	t     *terminal
	plain bool
}

func (s stream) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.all.Write(p)
	if s.plain {
		s.t.plain.Write(p)
	}
	return len(p), nil
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

func (t *terminal) out() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.plain.String()
}

type bench struct {
	t          *testing.T
	rt         *gatewaytest.Runtime
	catalog    *gatewaytest.Catalog
	server     string
	interrupts chan os.Signal
	screen     *terminal
	color      bool
	redis      string
	key        string
	terminals  [2]bool
	name       string // of the program; empty: starter
	width      int
	env        []string
}

func (b *bench) program() string { return cmp.Or(b.name, standalone) }

func setup(t *testing.T) *bench {
	t.Helper()
	return setupWith(t, func(*gateway.Config) {})
}

// setupWith is setup with a gateway that has more.
func setupWith(t *testing.T, configure func(*gateway.Config)) *bench {
	t.Helper()
	rt := gatewaytest.New()
	documents := &gatewaytest.Catalog{Plans: map[string][]byte{}}
	cfg := gateway.Config{Ports: gatewaytest.Ports(rt, documents)}
	configure(&cfg)
	g := gatewaytest.Serve(t, cfg)
	scheme := "http://"
	if cfg.HTTPTLS != nil {
		scheme = "https://"
	}
	return &bench{
		t: t, rt: rt, catalog: documents, server: scheme + g.HTTPAddr(), interrupts: make(chan os.Signal, 2), screen: &terminal{},
	}
}

// run runs a command line on a fresh terminal.
func (b *bench) run(in io.Reader, args ...string) int {
	a := &app{
		program: b.program(), width: b.width, env: b.env, in: in, out: stream{b.screen, true}, errOut: stream{b.screen, false}, interrupts: b.interrupts, server: b.server, version: cmdline.Version{Program: b.program(), Version: "v1.2.3", Commit: "abc", Go: "go1"},
		color: b.color, redis: b.redis, terminals: b.terminals, key: b.key,
	}
	return a.run(b.t.Context(), args)
}

func noInput() io.Reader { return strings.NewReader("") }

func says(text string) func(*gatewaytest.Runtime, agent.TurnID, agent.TurnRequest) {
	return func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, text) }
}

// show runs a command line that must end with code and returns everything that it printed.
func (b *bench) show(code int, args ...string) string {
	b.t.Helper()
	return b.showInput("", code, args...)
}

func (b *bench) showInput(in string, code int, args ...string) string {
	b.t.Helper()
	b.screen = &terminal{}
	require.Equal(b.t, code, b.run(strings.NewReader(in), args...), b.screen.String())
	return b.screen.String()
}

type commandLine struct {
	in   string
	args []string
	want int
}

func line(want int, args ...string) commandLine { return commandLine{args: args, want: want} }

// steps runs command lines, one after the other on one screen; their arguments follow those of command.
func (b *bench) steps(command string, steps ...commandLine) {
	b.t.Helper()
	for _, s := range steps {
		args := append(strings.Fields(command), s.args...)
		b.comment("$ starter " + strings.Join(args, " "))
		require.Equal(b.t, s.want, b.run(strings.NewReader(s.in), args...), "%s\n%s", args, b.screen.String())
	}
}

// comment writes a line that is not the program's.
func (b *bench) comment(line string) {
	_, _ = stream{b.screen, false}.Write([]byte(line + "\n"))
}

// jq returns a member of what a command prints as JSON.
func (b *bench) jq(member string, code int, args ...string) string {
	b.t.Helper()
	var out map[string]json.RawMessage
	require.NoError(b.t, json.Unmarshal([]byte(b.show(code, append(args, "-o", "json")...)), &out))
	return string(out[member])
}

// answer runs a command line with --output json and decodes what it prints.
func answer[T any](b *bench, args ...string) (v T) {
	b.t.Helper()
	b.show(0, append(args, "-o", "json")...)
	require.NoError(b.t, json.Unmarshal([]byte(b.screen.out()), &v))
	return v
}

// refuses runs command lines, by the error that each must print; the arguments follow those of command.
func (b *bench) refuses(command string, cases map[string]string) {
	b.t.Helper()
	for text, args := range cases {
		require.Contains(b.t, b.show(exitUsage, strings.Fields(command+" "+args)...), text, args)
	}
}
