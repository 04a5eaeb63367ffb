package kube_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/turnstone-run/turnstone/internal/kube"
)

// apiServer answers each request with the text of its method and address, and keeps the bodies.
type apiServer struct {
	answers map[string]string
	bodies  map[string]string
}

// ServeHTTP implements [http.Handler].
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := r.Method + " " + r.URL.RequestURI()
	body, _ := io.ReadAll(r.Body)
	s.bodies[request] = string(body)
	answer, ok := s.answers[request]
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no ` + request + `"}`
	}
	_, _ = io.WriteString(w, answer)
}

// connect returns a client of the server by way of a kubeconfig.
func (s *apiServer) connect(t *testing.T) kube.Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "`+server.URL+`"}}], users: [{name: u, user: {token: t}}]}`), 0o600))
	client, err := kube.Connect(file, "")
	require.NoError(t, err)
	return client
}

func TestClientRequests(t *testing.T) {
	const job, pods = `{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"j"}}`, "/api/v1/namespaces/agents/pods"
	const jobs, secrets = "/apis/batch/v1/namespaces/agents/jobs", "/api/v1/namespaces/agents/secrets"
	s := &apiServer{bodies: map[string]string{}, answers: map[string]string{
		"POST " + jobs: job, "GET " + jobs + "/j": job, "PATCH " + jobs + "/j": job, "DELETE " + jobs + "/j": job,
		"GET " + pods + "?labelSelector=a%3Db":               `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}`,
		"GET " + pods + "/p/log?container=agent&tailLines=7": "a line\n",
		"POST " + secrets: `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`,
	}}
	client, ctx := s.connect(t), t.Context()

	made, err := client.Jobs("agents").Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "j", made.Name)
	require.Contains(t, s.bodies["POST "+jobs], `"kind":"Job","apiVersion":"batch/v1"`)
	found, err := client.Jobs("agents").Get(ctx, "j", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "j", found.Name)
	_, err = client.Jobs("agents").Get(ctx, "k", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = client.Jobs("agents").Patch(ctx, "j", types.MergePatchType, []byte(`{"spec":{}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.JSONEq(t, `{"spec":{}}`, s.bodies["PATCH "+jobs+"/j"])
	require.NoError(t, client.Jobs("agents").Delete(ctx, "j", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	require.Contains(t, s.bodies["DELETE "+jobs+"/j"], `"propagationPolicy":"Background"`)

	list, err := client.Pods("agents").List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	log, err := client.Pods("agents").GetLogs("p", &corev1.PodLogOptions{Container: "agent", TailLines: new(int64(7))}).DoRaw(ctx)
	require.NoError(t, err)
	require.Equal(t, "a line\n", string(log))
	secret, err := client.Secrets("agents").Create(ctx, &corev1.Secret{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "s", secret.Name)
}
