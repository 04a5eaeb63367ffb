package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// everything is the npm package of the protocol's reference server.
const everything = "@modelcontextprotocol/server-everything@2026.8.31"

// installed installs the reference server, once per machine and version, and returns Node and the program. They are "" if there is no Node.
func installed(t *testing.T) (node, program string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		return "", ""
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", ""
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "turnstone-test", "mcp-everything-"+filepath.Base(everything))
	program = filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if _, err := os.Stat(program); err == nil {
		return node, program
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	require.NoError(t, err)
	defer os.RemoveAll(fresh)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, npm, "install", "--prefix", fresh, "--no-audit", "--no-fund", "--ignore-scripts", everything).CombinedOutput()
	require.NoError(t, err, "%s", out)
	if err := os.Rename(fresh, dir); err != nil { // somebody else was faster
		require.FileExists(t, program)
	}
	return node, program
}

func TestEverythingServer(t *testing.T) {
	node, program := installed(t)
	if node == "" {
		t.Log("NODE IS NOT HERE: the reference server was not tried")
		return
	}
	path := "PATH=" + os.Getenv("PATH")
	t.Run("stdio", func(t *testing.T) {
		kit := newKit(t, Config{Environ: []string{path}, Sample: agree, Servers: []Server{{
			Name: "everything", Command: node, Args: []string{program, "stdio"}, Env: map[string]string{"TOKEN": secretValue},
		}}})
		exerciseEverything(t, kit, map[string]any{"server": "everything"})
		askEverything(t, kit)
		var out map[string]string
		require.NoError(t, json.Unmarshal(kit.call(t, scopeOf(map[string]any{"server": "everything"}), "get-env", `{}`).Output, &out))
		require.Equal(t, redact.Placeholder, out["TOKEN"])
		require.NotContains(t, kit.allLogs(), secretValue)
	})
	t.Run("streamable HTTP", func(t *testing.T) {
		port := freePort(t)
		cmd := exec.Command(node, program, "streamableHttp")
		cmd.Env = []string{path, "PORT=" + port}
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}, 30*time.Second, 20*time.Millisecond)
		kit := newKit(t, Config{})
		exerciseEverything(t, kit, map[string]any{"url": "http://127.0.0.1:" + port + "/mcp"})
		require.NoError(t, kit.Close())
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func exerciseEverything(t *testing.T, kit *fixture, parameters map[string]any) {
	t.Helper()
	scope := scopeOf(parameters)
	list, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	t.Log(names(list))
	for i := range list {
		require.False(t, list[i].Spec.Idempotent || list[i].Spec.InherentlySafe, "hints are not believed")
	}

	require.JSONEq(t, `"Echo: hi"`, string(kit.call(t, scope, "echo", `{"message":"hi"}`).Output))
	require.Contains(t, string(kit.call(t, scope, "get-sum", `{"a":2,"b":3}`).Output), "5")
	require.NotNil(t, kit.call(t, scope, "get-sum", `{"a":"x"}`).Failure)

	var weather struct{ Temperature *float64 }
	require.NoError(t, json.Unmarshal(kit.call(t, scope, "get-structured-content", `{"location":"Chicago"}`).Output, &weather))
	require.NotNil(t, weather.Temperature)

	var picture struct{ Content []block }
	require.NoError(t, json.Unmarshal(kit.call(t, scope, "get-tiny-image", `{}`).Output, &picture))
	kinds := map[string]bool{}
	for _, b := range picture.Content {
		kinds[b.Type+b.MIMEType] = true
	}
	require.True(t, kinds["imageimage/png"], "%v", picture)

	inv := invocationOf(scope)
	var heard []string
	inv.Progress = func(m string) { heard = append(heard, m) }
	long := kit.find(t, scope, "trigger-long-running-operation")
	result, err := long.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: long.Spec().Name, Args: json.RawMessage(`{"duration":1,"steps":4}`)})
	require.NoError(t, err)
	require.Nil(t, result.Failure)
	require.NotEmpty(t, heard)

	require.NotContains(t, names(list), "simulate-research-query", "it runs as a task only")
	require.Contains(t, kit.allLogs(), "it runs as a task only")
	require.NotContains(t, names(list), "trigger-elicitation-request", "nobody can be asked")
	require.NotContains(t, names(list), sampling, "the server asks no client that does not say it can be asked")
	refused, err := kit.Find(t.Context(), scope, sampling, `{"name":"`+sampling+`"}`)
	if err == nil {
		result, err = refused.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: sampling, Args: json.RawMessage(`{"prompt":"hi","maxTokens":10}`)})
		require.NoError(t, err)
		require.NotNil(t, result.Failure)
	}
}

const sampling = "trigger-sampling-request"

func agree(context.Context, string, agent.ModelRequest) (agent.ModelReply, error) {
	return agent.ModelReply{Model: "m", Blocks: []agent.Block{agent.Text("agreed")}}, nil
}

// askEverything lets the server ask.
func askEverything(t *testing.T, kit *fixture) {
	t.Helper()
	scope := scopeOf(map[string]any{"server": "everything", "sampling": "allow"})
	require.Eventually(t, func() bool { // the server registers the tool behind its answer to initialize
		list, err := kit.List(t.Context(), scope)
		return err == nil && slices.Contains(names(list), sampling)
	}, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, string(kit.call(t, scope, sampling, `{"prompt":"hi","maxTokens":10}`).Output), "agreed")
}
