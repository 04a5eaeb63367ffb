package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/kube"
)

func TestRunToTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	done := w.run(t.Context(), w.container())
	job, pod := w.started()
	seen := func(message string) {
		t.Helper()
		require.Eventually(t, func() bool {
			told := w.reports()
			return len(told) > 0 && told[len(told)-1] == message
		}, 10*time.Second, time.Millisecond, message)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
	w.setState(pod, corev1.ContainerState{})
	seen("pending: Unschedulable: 0/3 nodes")
	w.setWaiting(pod, "ContainerCreating", "")
	seen("starting: ContainerCreating")
	w.setState(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	seen("running")
	w.setLogs("hello\n{\"sum\": 3}\n")
	w.setTerminated(pod, 0, "Completed", "")
	w.finish(job, batchv1.JobComplete, "")

	got := w.wait(done)
	require.NoError(t, got.err)
	require.Equal(t, agent.ContainerResult{Job: job.Name, Result: json.RawMessage(`{"sum": 3}`), Logs: "hello\n"}, got.ContainerResult)
	require.Equal(t, []string{"create", "patch"}, w.verbs("jobs"), "a finished job stays for its TTL")
	require.Equal(t, []string{"create"}, w.verbs("secrets"))
	secret, err := w.CoreV1().Secrets(namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, metav1.IsControlledBy(secret, job), "the input goes with the job")
}

// However often a call is made, it is one Job, and it starts once.
func TestNextAttempt(t *testing.T) {
	w := newWorld(t, nil)
	ctx, kill := context.WithCancel(t.Context())
	done := w.run(ctx, w.container())
	job, pod := w.started()
	kill() // as when the worker stops
	require.ErrorIs(t, w.wait(done).err, context.Canceled)
	require.Equal(t, []string{"create", "patch"}, w.verbs("jobs"), "the job is left running")

	again := w.container()
	again.Attempt = 2
	done = w.run(t.Context(), again)
	w.setTerminated(pod, 0, "Completed", `{"by":"message"}`)
	w.setLogs("log\n")
	w.finish(job, batchv1.JobComplete, "")
	got := w.wait(done)
	require.NoError(t, got.err)
	require.Equal(t, agent.ContainerResult{Job: job.Name, Result: json.RawMessage(`{"by":"message"}`), Logs: "log\n"}, got.ContainerResult)
	require.Equal(t, []string{"create", "patch"}, w.verbs("jobs"))
	require.Equal(t, []string{"create"}, w.verbs("secrets"))

	again.Attempt = 1 // a middleware asks again, in the same attempt
	got = w.wait(w.run(t.Context(), again))
	require.NoError(t, got.err)
	require.JSONEq(t, `{"by":"message"}`, string(got.Result))
	require.Equal(t, []string{"create", "patch", "create"}, w.verbs("jobs"), "the second is refused: it is there")
	require.Len(t, w.jobs(), 1)
}

// Wherever a worker dies, the next attempt goes on from there; once the container may have run, it is not started again.
func TestNextAttemptAfterDeath(t *testing.T) {
	for _, stage := range []struct {
		name, verb, resource string
		after                bool // the request got through
		unknown              bool
	}{
		{"before the job", "create", "jobs", false, true},
		{"after the job", "create", "jobs", true, false},
		{"before the input", "create", "secrets", false, false},
		{"after the input", "create", "secrets", true, false},
		{"before the start", "patch", "jobs", false, false},
	} {
		t.Run(stage.name, func(t *testing.T) {
			w := newWorld(t, nil)
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			var once atomic.Bool
			w.PrependReactor(stage.verb, stage.resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
				if !once.CompareAndSwap(false, true) {
					return false, nil, nil
				}
				if stage.after {
					object := a.(clienttesting.CreateAction).GetObject()
					if job, ok := object.(*batchv1.Job); ok {
						job.UID = "b"
					}
					require.NoError(t, w.Tracker().Create(a.GetResource(), object, namespace))
				}
				kill()
				return true, nil, context.Canceled
			})
			require.ErrorIs(t, w.wait(w.run(ctx, w.container())).err, context.Canceled)

			again := w.container()
			again.Attempt = 2
			done := w.run(t.Context(), again)
			if stage.unknown {
				got := w.wait(done)
				require.NoError(t, got.err)
				require.Equal(t, agent.OutcomeUnknown, got.Failure.Type)
				require.Empty(t, w.jobs())
				return
			}
			job, pod := w.started()
			w.setTerminated(pod, 0, "Completed", "1")
			w.finish(job, batchv1.JobComplete, "")
			got := w.wait(done)
			require.NoError(t, got.err)
			require.Nil(t, got.Failure)
		})
	}
}

func TestJobIsGone(t *testing.T) {
	w := newWorld(t, nil)
	again := w.container()
	again.Attempt = 2
	got := w.wait(w.run(t.Context(), again))
	require.NoError(t, got.err)
	require.Equal(t, agent.OutcomeUnknown, got.Failure.Type)
	require.Empty(t, w.verbs("jobs"), "nothing is started")

	for _, another := range []bool{false, true} {
		w := newWorld(t, nil)
		done := w.run(t.Context(), w.container())
		job, _ := w.started()
		if another { // of the same name
			job.UID = "z"
			require.NoError(t, w.Tracker().Update(batchv1.SchemeGroupVersion.WithResource("jobs"), job, namespace))
		} else {
			require.NoError(t, w.BatchV1().Jobs(namespace).Delete(t.Context(), job.Name, metav1.DeleteOptions{}))
		}
		got = w.wait(done)
		require.NoError(t, got.err)
		require.Equal(t, agent.OutcomeUnknown, got.Failure.Type)
		require.False(t, got.Failure.Retryable)
	}
}

func TestInterrupted(t *testing.T) {
	tests := map[string]struct {
		cause   error
		deleted bool
	}{
		"the turn is cancelled":       {agent.Errorf(agent.CodeCancelled, "", "the turn was cancelled"), true},
		"the turn has ended":          {agent.ErrStreamClosed, true},
		"another attempt has begun":   {agent.ErrFenced, false},
		"the worker stops":            {context.Canceled, false},
		"the event log cannot be had": {agent.Errorf(agent.CodeInternal, "event log", "away"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			ctx, stop := context.WithCancelCause(t.Context())
			done := w.run(ctx, w.container())
			w.started()
			stop(tt.cause)
			got := w.wait(done)
			require.Error(t, got.err)
			require.Equal(t, tt.deleted, len(w.jobs()) == 0)
			if !tt.deleted {
				return
			}
			options := lastDelete(t, w)
			require.Equal(t, metav1.DeletePropagationBackground, *options.PropagationPolicy, "the pods go as well")
			require.Equal(t, "b", string(*options.Preconditions.UID))
		})
	}
	t.Run("the call's time is over", func(t *testing.T) {
		w := newWorld(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := w.wait(w.run(ctx, w.container()))
		require.NoError(t, got.err)
		require.Contains(t, got.Failure.Message, "the call's time was over")
		require.False(t, got.Failure.Retryable, "a middleware must not run it twice")
		require.Empty(t, w.jobs())
	})
}

func lastDelete(t *testing.T, w *world) metav1.DeleteOptions {
	t.Helper()
	for _, a := range w.Actions() {
		if d, ok := a.(clienttesting.DeleteActionImpl); ok && a.GetResource().Resource == "jobs" {
			return d.DeleteOptions
		}
	}
	require.FailNow(t, "nothing was deleted")
	return metav1.DeleteOptions{}
}

func TestContainerFails(t *testing.T) {
	tests := map[string]struct {
		code           int32
		reason, logs   string
		pod, condition string
		want           agent.Failure
	}{
		"exit code": {
			1, "Error", "Traceback\nValueError: x\n", "", "BackoffLimitExceeded",
			agent.Failure{Type: "invalid", Message: "the container exited with code 1:\nTraceback\nValueError: x"},
		},
		"memory": {
			137, "OOMKilled", "", "", "BackoffLimitExceeded",
			agent.Failure{Type: "overflow", Message: "the container used more than its 512Mi of memory"},
		},
		"time": {
			137, "Error", "half\n", "DeadlineExceeded", "BackoffLimitExceeded",
			agent.Failure{Type: "unavailable", Message: "the container took longer than 7m0s and was stopped:\nhalf"},
		},
		"disk": {
			137, "Error", "", "Evicted", "BackoffLimitExceeded", agent.Failure{Type: "overflow", Message: "the container was evicted: kubelet's words"},
		},
		"the job's time": {
			0, "", "", "", "DeadlineExceeded", agent.Failure{Type: "unavailable", Message: "the container took longer than 7m0s and was stopped"},
		},
		"long logs": {
			2, "Error", strings.Repeat("x", 5000) + "\n", "", "BackoffLimitExceeded",
			agent.Failure{Type: "invalid", Message: "the container exited with code 2:\n…" + strings.Repeat("x", 2047)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.setLogs(tt.logs)
			done := w.run(t.Context(), w.container())
			job, pod := w.started()
			pod.Status.Reason, pod.Status.Message = tt.pod, "kubelet's words"
			w.setTerminated(pod, tt.code, tt.reason, "")
			w.finish(job, batchv1.JobFailed, tt.condition)
			got := w.wait(done)
			require.NoError(t, got.err)
			require.Equal(t, &tt.want, got.Failure)
			require.Equal(t, tt.code, got.ExitCode)
		})
	}
	t.Run("no pod", func(t *testing.T) {
		w := newWorld(t, nil)
		done := w.run(t.Context(), w.container())
		job, pod := w.started()
		require.NoError(t, w.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse}}
		w.finish(job, batchv1.JobFailed, "DeadlineExceeded")
		require.Equal(t, "the container took longer than 7m0s and was stopped (waiting for a pod)", w.wait(done).Failure.Message)
	})
	t.Run("the pod of a success is gone", func(t *testing.T) {
		w := newWorld(t, nil)
		done := w.run(t.Context(), w.container())
		job, pod := w.started()
		require.NoError(t, w.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
		w.finish(job, batchv1.JobComplete, "")
		require.Equal(t, agent.OutcomeUnknown, w.wait(done).Failure.Type)
	})
}

func TestImageCannotBeHad(t *testing.T) {
	for reason, patience := range map[string]time.Duration{"ImagePullBackOff": 50 * time.Millisecond, "InvalidImageName": time.Hour} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t, func(c *kube.Config) { c.PullPatience = patience })
			done := w.run(t.Context(), w.container())
			_, pod := w.started()
			w.setWaiting(pod, reason, "no such\nimage")
			got := w.wait(done)
			require.NoError(t, got.err)
			require.Equal(t, &agent.Failure{
				Type: "unavailable", Field: "image", Message: "starting: " + reason + ": no such image; the container did not start",
			}, got.Failure)
			require.Empty(t, w.jobs())
		})
	}
	t.Run("it can be had after all", func(t *testing.T) {
		w := newWorld(t, func(c *kube.Config) { c.PullPatience = time.Hour })
		done := w.run(t.Context(), w.container())
		job, pod := w.started()
		w.setWaiting(pod, "ErrImagePull", "later")
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(w.reports(), ""), "ErrImagePull: later") }, 10*time.Second, time.Millisecond)
		w.setTerminated(pod, 0, "", "true")
		w.finish(job, batchv1.JobComplete, "")
		require.JSONEq(t, "true", string(w.wait(done).Result))
	})
}

func TestClusterRefuses(t *testing.T) {
	forbidden := apierrors.NewForbidden(batchv1.Resource("jobs"), "x", errors.New("exceeded quota"))
	for _, at := range []struct{ verb, resource string }{{"create", "jobs"}, {"create", "secrets"}, {"patch", "jobs"}} {
		t.Run(at.verb+" "+at.resource, func(t *testing.T) {
			w := newWorld(t, nil)
			w.PrependReactor(at.verb, at.resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
			got := w.wait(w.run(t.Context(), w.container()))
			require.NoError(t, got.err)
			require.Equal(t, "denied", got.Failure.Type)
			require.Contains(t, got.Failure.Message, "exceeded quota")
			require.Contains(t, got.Failure.Message, "nothing was started")
			require.False(t, got.Failure.Retryable)
			require.Empty(t, w.jobs(), "nothing is left behind")
		})
	}
}

// The API may be away for a moment.
func TestClusterIsAway(t *testing.T) {
	w := newWorld(t, nil)
	var asked atomic.Int32
	w.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked.Add(1)%2 == 1 {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "", schema.GroupResource{}, "", "", 0, true)
		}
		return false, nil, nil
	})
	done := w.run(t.Context(), w.container())
	var job *batchv1.Job
	require.Eventually(t, func() bool {
		list, err := w.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 || *list.Items[0].Spec.Suspend {
			return false
		}
		job = &list.Items[0]
		return true
	}, 20*time.Second, 7*time.Millisecond)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy"}}
	require.Eventually(t, func() bool {
		_, err := w.BatchV1().Jobs(namespace).UpdateStatus(t.Context(), job, metav1.UpdateOptions{})
		return err == nil
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "the job failed: PodFailurePolicy", w.wait(done).Failure.Message)
}

func TestAJobOfAnother(t *testing.T) {
	w := newWorld(t, nil)
	done := w.run(t.Context(), w.container())
	w.started()
	other := w.container()
	other.Input = json.RawMessage(`{"n":2}`)
	ctx, cancel := context.WithCancelCause(t.Context())
	got := w.wait(w.run(ctx, other))
	require.NoError(t, got.err)
	require.Equal(t, "conflict", got.Failure.Type)
	cancel(agent.Errorf(agent.CodeCancelled, "", "the turn was cancelled"))
	got = w.wait(w.run(ctx, other))
	require.Error(t, got.err)
	require.Len(t, w.jobs(), 1, "another's job is not deleted")
	require.Empty(t, done)
}

// The manifest of a dry run is what a run creates, and nothing is created. Without a cluster and without a list, any image may be named.
func TestRender(t *testing.T) {
	w := newWorld(t, nil)
	made, err := w.Render(w.container())
	require.NoError(t, err)
	require.Empty(t, w.Actions(), "the cluster is not asked")
	job, secret := rendered(t, made)
	done := w.run(t.Context(), w.container())
	run, _ := w.started()
	w.finish(run.DeepCopy(), batchv1.JobFailed, "")
	w.wait(done)
	require.Equal(t, run.Name, made.Job)
	require.Equal(t, run.Spec.Template, job.Spec.Template)
	require.Equal(t, []string{"batch/v1 Job", "v1 Secret"}, []string{job.APIVersion + " " + job.Kind, secret.APIVersion + " " + secret.Kind})
	require.Nil(t, job.Spec.Suspend, "it runs when it is created")
	require.JSONEq(t, `{"n":1}`, string(secret.Data["input.json"]))

	other := w.container()
	other.Image = "elsewhere.example/tool:1"
	_, err = w.Render(other)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	for images, want := range map[string]agent.Code{"": "", "registry.example/tool": agent.CodeDenied} {
		renderer, err := kube.NewRenderer(kube.Config{Images: strings.Fields(images)})
		require.NoError(t, err)
		_, err = renderer.Render(other)
		require.Equal(t, want, agent.CodeOf(err), images)
	}
	_, err = kube.NewRenderer(kube.Config{Deadline: time.Hour})
	require.ErrorContains(t, err, "deadline")
}

func rendered(t *testing.T, m agent.ContainerManifest) (*batchv1.Job, *corev1.Secret) {
	t.Helper()
	var list struct {
		Items []json.RawMessage
	}
	var job batchv1.Job
	var secret corev1.Secret
	require.NoError(t, json.Unmarshal(m.Manifest, &list))
	require.Len(t, list.Items, 2, "the input comes first")
	require.NoError(t, json.Unmarshal(list.Items[0], &secret))
	require.NoError(t, json.Unmarshal(list.Items[1], &job))
	return &job, &secret
}

// The status of an earlier call's Job is looked up once, for its own tenant alone, and has the result once there is one.
func TestStatus(t *testing.T) {
	w := newWorld(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := w.run(ctx, w.container())
	job, pod := w.started()
	w.setState(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	stop() // the worker stops, the Job goes on
	w.wait(done)
	got, err := w.Status(t.Context(), "acme", job.Name)
	require.NoError(t, err)
	require.Equal(t, agent.ContainerStatus{Job: job.Name, State: "running", Detail: "running"}, got)
	for _, of := range [][2]string{{"other", job.Name}, {"acme", "turnstone-" + strings.Repeat("0", 32)}} {
		_, err = w.Status(t.Context(), of[0], of[1])
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", of)
	}
	_, err = w.Status(t.Context(), "acme", "kube-proxy")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))

	w.setLogs("hello\n{\"sum\": 3}\n")
	w.setTerminated(pod, 0, "Completed", "")
	w.finish(job.DeepCopy(), batchv1.JobComplete, "")
	got, err = w.Status(t.Context(), "acme", job.Name)
	require.NoError(t, err)
	require.Equal(t, agent.ContainerStatus{
		Job: job.Name, State: "succeeded", Result: agent.ContainerResult{Job: job.Name, Result: json.RawMessage(`{"sum": 3}`), Logs: "hello\n"},
	}, got)
}

func TestStatusOfAFailedJob(t *testing.T) {
	w := newWorld(t, nil)
	done := w.run(t.Context(), w.container())
	job, pod := w.started()
	w.setLogs("")
	w.setTerminated(pod, 137, "OOMKilled", "")
	w.finish(job, batchv1.JobFailed, "")
	w.wait(done)
	got, err := w.Status(t.Context(), "acme", job.Name)
	require.NoError(t, err)
	require.Equal(t, "failed", got.State)
	require.Equal(t, &agent.Failure{Type: "overflow", Message: "the container used more than its 512Mi of memory"}, got.Result.Failure)

	w.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, job.Name, errors.New("no"))
	})
	_, err = w.Status(t.Context(), "acme", job.Name)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}
