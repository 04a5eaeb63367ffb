package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// npmClients installs the packages of testdata/client, at the versions of its lock file, and returns the directory.
func npmClients(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "this test needs Node.js: install the packages nodejs and npm (.ci/run does)")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "client"))))
	run(t, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	return dir
}

// TestClients runs the scripts of testdata/client against the door.
func TestClients(t *testing.T) {
	dir := npmClients(t)
	t.Run("official", func(t *testing.T) { checkOfficialClient(t, dir) })
	t.Run("retries", func(t *testing.T) { checkRetries(t, dir) })
}

// checkRetries runs retries.mjs: every call of a client makes one turn, even if the client retries it. The names of the agents are those of the case and
// the client.
func checkRetries(t *testing.T, dir string) {
	rt := gatewaytest.New()
	var mu sync.Mutex
	turns, requests := map[string]int{}, map[string]int{}
	rt.Refuse = func(e agent.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		requests[e.Request.Agent]++
		return nil
	}
	ending := func(code agent.Code) []agent.Event {
		return []agent.Event{running(), terminal("", func(o *agent.AgentStepOutput) {
			o.Status, o.StopReason = agent.TurnFailed, agent.StopModelError
			o.Error = &agent.Failure{Type: string(code), Message: "the provider said no", Retryable: true}
		})}
	}
	rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		mu.Lock()
		turns[r.Agent]++
		mu.Unlock()
		switch what, _, _ := strings.Cut(r.Agent, "."); what {
		case "waits":
			rt.Emit(id, append([]agent.Event{running()}, approvalRequest("a1", "send_mail")...)...)
		case "429":
			rt.Emit(id, ending(agent.CodeRateLimited)...)
		case "500":
			rt.Emit(id, ending(agent.CodeInternal)...)
		case "503":
			rt.Emit(id, ending(agent.CodeUnavailable)...)
		case "slow": // the answer to the first attempt is 503, turn_running
			rt.Emit(id, running())
			time.AfterFunc(1200*time.Millisecond, func() { rt.Emit(id, ending(agent.CodeInternal)...) })
		}
	}
	d := openOver(t, rt, &gatewaytest.Catalog{}, func(c *gateway.Config) { c.Limits.WaitTimeout = time.Second })
	kinds := []string{"waits", "429", "500", "503", "slow"}
	out := run(t, dir, []string{"BASE_URL=" + d.url + "/v1", "MODELS=" + strings.Join(kinds, ".{client},") + ".{client}"}, "node", "retries.mjs")
	t.Log(out)
	require.Len(t, turns, 6*len(kinds))
	for name, n := range turns {
		require.Equal(t, 1, n, "turns of %s", name)
		if what, client, _ := strings.Cut(name, "."); what != "slow" {
			require.Equal(t, 1, requests[name], "requests of %s", name)
		} else if !strings.HasSuffix(client, "-stream") {
			require.Greater(t, requests[name], 1, "%s must retry while the turn is running", name)
		}
	}
}

// checkOfficialClient runs check.mjs, which uses the openai package.
func checkOfficialClient(t *testing.T, dir string) {
	rt := gatewaytest.New()
	rt.Refuse = func(e agent.Envelope) error {
		switch e.Request.Agent {
		case "nobody":
			return agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", e.Request.Agent)
		case "locked":
			return agent.Errorf(agent.CodeUnauthenticated, "", "the key is not known")
		case "busy":
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 7 * time.Second, Err: errors.New("too many requests")}
		}
		return nil
	}
	rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) { rt.Emit(id, scene(rt, &r)...) }
	rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error {
		t.Error("a turn was cancelled because its client disconnected")
		return nil
	}
	rt.Provided = func(id agent.TurnID, r agent.ProvidedResult) error {
		rt.Emit(id, inputResolved(string(r.ToolCallID)), running(), token("model/2", "f says "+string(r.Result)), completed("f says "+string(r.Result)))
		return nil
	}
	catalog := &gatewaytest.Catalog{AgentList: []agent.AgentInfo{
		{Name: "analyst", Tenant: agent.SharedTenant, Models: []string{"main", "fast"}},
		{Name: "waits", Tenant: "default", Models: []string{"main"}},
		{Name: "broken", Fault: "its model is gone"},
	}}
	d := openOver(t, rt, catalog, nil)
	out := run(t, dir, []string{"BASE_URL=" + d.url + "/v1"}, "node", "check.mjs")
	t.Log(out)
	require.Equal(t, 14, strings.Count(out, "ok "), "%s", out)
	require.Equal(t, "openai", rt.Submitted()[0].Channel)
}

// scene returns the events of a turn of an agent that check.mjs calls.
func scene(rt *gatewaytest.Runtime, r *agent.TurnRequest) []agent.Event {
	failed := func(o *agent.AgentStepOutput) {
		o.Status, o.StopReason = agent.TurnFailed, agent.StopModelError
		o.Error = &agent.Failure{Type: string(agent.StopModelError), Message: "the provider said no"}
	}
	plain := func(text string) []agent.Event {
		return []agent.Event{running(), token("model/1", text), completed(text)}
	}
	switch r.Agent {
	case "document":
		document := `{"words":["a","b","c"]}`
		return []agent.Event{running(), token("model/1", "not yet"), token("model/2", document), terminal(document, func(o *agent.AgentStepOutput) {
			o.Structured = json.RawMessage(document)
		})}
	case "echo":
		var seen []string
		for _, m := range r.Messages {
			var kinds []string
			for i := range m.Blocks {
				kinds = append(kinds, string(m.Blocks[i].Type))
			}
			seen = append(seen, fmt.Sprintf("%s:%s", m.Role, strings.Join(kinds, ",")))
		}
		return plain(strings.Join(seen, " "))
	case "count":
		return plain(strconv.Itoa(len(rt.Submitted())))
	case "calls":
		return append([]agent.Event{running()}, clientToolCall("a1", "f", `{"x":1}`)...)
	case "waits":
		return append([]agent.Event{running()}, approvalRequest("a1", "send_mail")...)
	case "fails":
		return []agent.Event{running(), token("model/1", "well"), terminal("", failed)}
	case "restarts":
		return []agent.Event{running(), token("model/1", "It is hot"), reset("model/1", 2), token("model/1", "It is cold"), completed("It is cold")}
	case "silent":
		return []agent.Event{running()}
	default:
		first := []agent.Event{running(), reasoning("model/1", "They want "), reasoning("model/1", "flights."), token("model/1", "Let me look.")}
		for _, word := range strings.SplitAfter("Here are three flights.", " ") {
			first = append(first, token("model/2", word))
		}
		return append(first, completed("Here are three flights."))
	}
}

func completed(text string) agent.Event {
	return terminal(text, func(o *agent.AgentStepOutput) { o.Usage = agent.Usage{InputTokens: 10, OutputTokens: 5} })
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s %s: %s", name, strings.Join(args, " "), &out)
	return out.String()
}
