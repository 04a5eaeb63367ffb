package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/kube"
)

// A private orchestrator that the operator names is reached, with the token, which it cannot tell anybody.
func TestOrchestrated(t *testing.T) {
	t.Parallel()
	var got *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		if r.URL.Path != "/api/v1/workflows/main:patch" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"patch_id": "p-1", "version": 2, "description": r.Header.Get("Authorization")})
	}))
	t.Cleanup(srv.Close)
	w, err := newOrchestrator(&Workflows{OrchestratorURL: srv.URL + "/api/v1", OrchestratorToken: "a-secret-token"})
	require.NoError(t, err)
	r, err := w.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{
		WorkflowKey: agent.WorkflowKey{Tenant: "default", Owner: "joe", Tag: "main"}, Operations: json.RawMessage(`[{"op":"remove","path":"/nodes/0"}]`),
		Idempotency: "k",
	})
	require.NoError(t, err)
	require.Equal(t, "p-1", r.PatchID)
	require.Equal(t, "Bearer a-secret-token", got.Header.Get("Authorization"))
	require.Equal(t, "k", got.Header.Get("Idempotency-Key"))

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/v1/workflows/main:patch", nil)
	require.NoError(t, err)
	web, err := orchestratorHTTP(&Workflows{OrchestratorURL: srv.URL, OrchestratorToken: "a-secret-token"})
	require.NoError(t, err)
	resp, err := web.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NotContains(t, string(body), "a-secret-token")
	require.Contains(t, string(body), "Bearer [redacted]")
	require.Empty(t, req.Header.Get("Authorization"), "the caller's request stays as it is")

	_, err = w.ListWorkflows(t.Context(), agent.WorkflowQuery{Tenant: "default"})
	require.NoError(t, err, "it may list none")
	_, err = newOrchestrator(&Workflows{OrchestratorURL: "ftp://x"})
	require.ErrorContains(t, err, "workflows.orchestrator_url")
}

func TestNoCluster(t *testing.T) {
	t.Parallel()
	c := Default().Tools.Kubernetes
	c.Kubeconfig = "/nowhere"
	none, err := delegation(&c, nil)
	require.NoError(t, err)
	require.Nil(t, none.Containers)
	made, err := none.Manifests.Render(agent.Container{Key: "k", Code: "1"})
	require.NoError(t, err, "without a cluster manifests are written")
	require.Contains(t, string(made.Manifest), kube.DefaultInterpreter)
	_, err = delegation(&Kubernetes{Enabled: true, Kubeconfig: filepath.Join(t.TempDir(), "none")}, nil)
	require.ErrorContains(t, err, "tools.kubernetes")
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
		"clusters":[{"name":"k","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{"token":"t"}}]}`), 0o600))
	c.Enabled, c.Kubeconfig = true, file
	there, err := delegation(&c, nil)
	require.NoError(t, err)
	require.NotNil(t, there.Containers)
	c.Images = []string{"not an image"}
	_, err = delegation(&c, nil)
	require.ErrorContains(t, err, "images[0]")
}

func TestMCPConfig(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Tools.MCP.Servers = []MCPServer{{Name: "files", Command: "serve", Args: []string{"-v"}, Env: []string{"TOKEN=a=b"}, Dir: "/srv"}}
	cfg, err := mcpConfig(&c, &World{Env: []string{"PATH=/bin", "HOME=/root", "OPENAI_API_KEY=sk"}})
	require.NoError(t, err)
	require.Equal(t, []string{"PATH=/bin", "HOME=/root"}, cfg.Environ, "nothing of the runtime's own")
	require.Equal(t, map[string]string{"TOKEN": "a=b"}, cfg.Servers[0].Env)
	require.Equal(t, "files serve [-v] /srv", cfg.Servers[0].Name+" "+cfg.Servers[0].Command+" ["+cfg.Servers[0].Args[0]+"] "+cfg.Servers[0].Dir)
	require.NotNil(t, cfg.HTTP)
}
