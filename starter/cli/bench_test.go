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

// packageDir is the folder of this package. Tests change the working directory.
var packageDir, _ = os.Getwd()

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(packageDir, "testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// terminal records the output of a command.
type terminal struct {
	mu     sync.Mutex
	all    strings.Builder // both streams, in their order
	stdout strings.Builder
}

type stream struct {
	t        *terminal
	isStdout bool
}

func (s stream) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.all.Write(p)
	if s.isStdout {
		s.t.stdout.Write(p)
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
	return t.stdout.String()
}

// bench is a server with fakes behind it, and a terminal on which command lines run.
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
	name       string // name of the program; empty: starter
	width      int
	env        []string
}

func (b *bench) program() string { return cmp.Or(b.name, standalone) }

func setup(t *testing.T) *bench {
	t.Helper()
	return setupWith(t, func(*gateway.Config) {})
}

// setupWith is setup with a changed configuration of the gateway.
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

// run runs a command line on the bench's terminal.
func (b *bench) run(in io.Reader, args ...string) int {
	a := &app{
		program: b.program(), in: in, out: stream{b.screen, true}, errOut: stream{b.screen, false}, outIsTerminal: b.terminals[0],
		errIsTerminal: b.terminals[1], width: b.width, useColor: b.color, env: b.env, interrupts: b.interrupts, server: b.server, redis: b.redis, key: b.key,
		version: cmdline.Version{Program: b.program(), Version: "v1.2.3", Commit: "abc", Go: "go1"},
	}
	return a.run(b.t.Context(), args)
}

func noInput() io.Reader { return strings.NewReader("") }

func says(text string) func(*gatewaytest.Runtime, agent.TurnID, agent.TurnRequest) {
	return func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, text) }
}

// show runs a command line on a new terminal. It must end with code. show returns the output of both streams.
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

// words returns a command line whose arguments are the words of a text.
func words(want int, text string) commandLine { return line(want, strings.Fields(text)...) }

// succeeds runs command lines that must end with code 0, as steps does.
func (b *bench) succeeds(command string, texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.steps(command, words(0, text))
	}
}

// steps runs command lines, each on a comment with its text, on one terminal. Their arguments follow those of command.
func (b *bench) steps(command string, steps ...commandLine) {
	b.t.Helper()
	for _, s := range steps {
		args := append(strings.Fields(command), s.args...)
		b.comment("$ starter " + strings.Join(args, " "))
		require.Equal(b.t, s.want, b.run(strings.NewReader(s.in), args...), "%s\n%s", args, b.screen.String())
	}
}

// comment writes a line to the terminal.
func (b *bench) comment(line string) {
	_, _ = stream{b.screen, false}.Write([]byte(line + "\n"))
}

// jq returns a member of the JSON object that a command prints.
func (b *bench) jq(member string, code int, args ...string) string {
	b.t.Helper()
	return string(answerWith[map[string]json.RawMessage](b, code, args...)[member])
}

// answer runs a command line with --output json, which must end with code 0, and returns the decoded output.
func answer[T any](b *bench, args ...string) T {
	b.t.Helper()
	return answerWith[T](b, 0, args...)
}

// answerWith is answer for a command line that must end with code.
func answerWith[T any](b *bench, code int, args ...string) (v T) {
	b.t.Helper()
	b.show(code, append(args, "-o", "json")...)
	require.NoError(b.t, json.Unmarshal([]byte(b.screen.out()), &v), b.screen.String())
	return v
}

// refuses runs command lines, each of which must end with a usage error that contains the key of the map. The arguments follow those of command.
func (b *bench) refuses(command string, cases map[string]string) {
	b.t.Helper()
	for text, args := range cases {
		require.Contains(b.t, b.show(exitUsage, strings.Fields(command+" "+args)...), text, args)
	}
}
