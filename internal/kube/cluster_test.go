package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/kube"
)

const namespace = "agents"

// world is a cluster without nodes: the test plays the Job controller and the kubelet.
type world struct {
	*fake.Clientset
	*kube.Cluster

	t        *testing.T
	mu       sync.Mutex
	reported []string
	logs     string
}

func newWorld(t *testing.T, change func(*kube.Config)) *world {
	t.Helper()
	w := &world{Clientset: fake.NewClientset(), t: t, logs: "{}\n"}
	uids := 0
	w.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		job := a.(clienttesting.CreateAction).GetObject().(*batchv1.Job)
		uids++
		job.UID = types.UID(string(rune('a' + uids)))
		return false, nil, nil
	})
	cfg := kube.Config{
		Client: connect(t, w), Namespace: namespace, Images: []string{"registry.example/tool"}, Interpreter: "python:3.13", PollInterval: 20 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	w.Cluster, err = kube.New(cfg)
	require.NoError(t, err)
	return w
}

// connect returns a client of an API server by way of a kubeconfig.
func connect(t *testing.T, api http.Handler) *kube.Client {
	t.Helper()
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {insecure-skip-tls-verify: true, server: "`+server.URL+`/behind"}}], users: [{name: u, user: {token: t}}]}`), 0o600))
	client, err := kube.Connect(file, "")
	require.NoError(t, err)
	return client
}

// ServeHTTP implements [http.Handler]: it is the API server. What it is sent must be what the types of Kubernetes hold.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	answer, err := w.answer(r)
	if refusal := apierrors.APIStatus(nil); errors.As(err, &refusal) {
		status := refusal.Status()
		status.Kind, answer = "Status", &status
		rw.WriteHeader(int(status.Code))
	} else if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	if log, ok := answer.(string); ok {
		_, _ = io.WriteString(rw, log)
		return
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

func (w *world) answer(r *http.Request) (any, error) {
	require.Equal(w.t, "Bearer t", r.Header.Get("Authorization"))
	prefix, path, _ := strings.Cut(r.URL.Path, "/namespaces/"+namespace+"/")
	kind, name, _ := strings.Cut(path, "/")
	jobs, pods, secrets := w.BatchV1().Jobs(namespace), w.CoreV1().Pods(namespace), w.CoreV1().Secrets(namespace)
	require.Equal(w.t, map[bool]string{true: "/behind/apis/batch/v1", false: "/behind/api/v1"}[kind == "jobs"], prefix)
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	switch r.Method + " " + kind {
	case "POST jobs":
		job := batchv1.Job{}
		require.NoError(w.t, body.Decode(&job))
		return jobs.Create(r.Context(), &job, metav1.CreateOptions{})
	case "GET jobs":
		return jobs.Get(r.Context(), name, metav1.GetOptions{})
	case "PATCH jobs":
		patch := batchv1.Job{}
		require.NoError(w.t, body.Decode(&patch))
		require.False(w.t, *patch.Spec.Suspend)
		return jobs.Patch(r.Context(), name, types.PatchType(r.Header.Get("Content-Type")), []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	case "DELETE jobs":
		options := metav1.DeleteOptions{}
		require.NoError(w.t, body.Decode(&options))
		return metav1.Status{}, jobs.Delete(r.Context(), name, options)
	case "GET pods":
		if pod, isLog := strings.CutSuffix(name, "/log"); isLog {
			require.Equal(w.t, "pod-1?container=agent&tailLines=20000", pod+"?"+r.URL.RawQuery)
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.logs, nil
		}
		return pods.List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	case "POST secrets":
		secret := corev1.Secret{}
		require.NoError(w.t, body.Decode(&secret))
		return secrets.Create(r.Context(), &secret, metav1.CreateOptions{})
	default:
		require.Equal(w.t, "GET secrets", r.Method+" "+kind)
		return secrets.Get(r.Context(), name, metav1.GetOptions{})
	}
}

// container is a call's container.
func (w *world) container() agent.Container {
	return agent.Container{
		Tenant: "acme", TurnID: "turn-1", Key: "turn-1/1/call", Attempt: 1, Image: "registry.example/tool:1", Input: json.RawMessage(`{"n":1}`),
		Report: func(message string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reported = append(w.reported, message)
		},
	}
}

func (w *world) reports() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.reported...)
}

// answer is what Run returned.
type answer struct {
	agent.ContainerResult

	err error
}

// run runs in the background.
func (w *world) run(ctx context.Context, in agent.Container) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		r, err := w.Run(ctx, in)
		done <- answer{r, err}
	}()
	return done
}

func (w *world) wait(done <-chan answer) answer {
	w.t.Helper()
	select {
	case a := <-done:
		return a
	case <-time.After(20 * time.Second):
		require.FailNow(w.t, "the run does not end")
		return answer{}
	}
}

func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	list, err := w.BatchV1().Jobs(namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

// started waits for the one Job to run, and gives it a pod.
func (w *world) started() (*batchv1.Job, *corev1.Pod) {
	w.t.Helper()
	var job *batchv1.Job
	require.Eventually(w.t, func() bool {
		jobs := w.jobs()
		if len(jobs) != 1 || *jobs[0].Spec.Suspend {
			return false
		}
		job = &jobs[0]
		return true
	}, 10*time.Second, 5*time.Millisecond)
	return job, w.pod(job, "pod-1")
}

func (w *world) pod(job *batchv1.Job, name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.CoreV1().Pods(namespace).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return pod
}

// setState changes a pod's container to a state.
func (w *world) setState(pod *corev1.Pod, state corev1.ContainerState) {
	w.t.Helper()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: state}}
	_, err := w.CoreV1().Pods(namespace).UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func (w *world) setWaiting(pod *corev1.Pod, reason, message string) {
	w.setState(pod, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func (w *world) setTerminated(pod *corev1.Pod, code int32, reason, message string) {
	w.setState(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

// finish ends a Job with a condition.
func (w *world) finish(job *batchv1.Job, kind batchv1.JobConditionType, reason string) {
	w.t.Helper()
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason})
	_, err := w.BatchV1().Jobs(namespace).UpdateStatus(w.t.Context(), job, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// setLogs says what the container has written.
func (w *world) setLogs(logs string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = logs
}

// verbs are the requests for a resource, in order, without those that only look.
func (w *world) verbs(resource string) []string {
	var verbs []string
	for _, a := range w.Actions() {
		if a.GetResource().Resource == resource && a.GetVerb() != "get" && a.GetVerb() != "watch" && a.GetVerb() != "list" && a.GetSubresource() == "" {
			verbs = append(verbs, a.GetVerb())
		}
	}
	return verbs
}
