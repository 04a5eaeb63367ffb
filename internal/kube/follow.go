package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// snapshot is the state of a Job at one time.
type snapshot struct {
	job *batchv1.Job
	pod *corev1.Pod // the newest; nil: none yet
}

// follow reads the Job until it has finished, and returns its result.
func (r *run) follow(ctx context.Context) (agent.ContainerResult, error) {
	tick := time.NewTicker(r.c.cfg.PollInterval)
	defer tick.Stop()
	var troubled time.Time // since when the image cannot be pulled
	for {
		seen, err := r.read(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return agent.ContainerResult{Failure: jobGoneFailure()}, nil
		case err != nil && isFinal(err):
			return agent.ContainerResult{}, agent.Errorf(agent.CodeUnavailable, op, "the cluster refuses: %s", clip.Bytes(err.Error(), maxAPIMessage))
		case err != nil:
			return agent.ContainerResult{}, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
		case seen.job.UID != r.job.UID:
			return agent.ContainerResult{Failure: jobGoneFailure()}, nil
		}
		if done, ok := endCondition(seen.job); ok {
			return r.collect(ctx, seen, done)
		}
		what, problem := progress(seen.pod)
		r.report(what)
		switch {
		case problem == noProblem:
			troubled = time.Time{}
		case troubled.IsZero():
			troubled = time.Now()
		}
		if problem == isPermanent || problem == mayRecover && time.Since(troubled) >= r.c.cfg.PullPatience {
			r.remove(ctx)
			return agent.ContainerResult{Failure: &agent.Failure{
				Type: string(agent.CodeUnavailable), Message: what + "; the container did not start", Field: "image",
			}}, nil
		}
		select {
		case <-ctx.Done():
			return agent.ContainerResult{}, agent.Interrupted(ctx, op)
		case <-tick.C:
		}
	}
}

// read returns the Job and its newest pod.
func (r *run) read(ctx context.Context) (snapshot, error) {
	job, err := retry(ctx, func(ctx context.Context) (*batchv1.Job, error) {
		return r.c.cfg.Client.Jobs(r.c.cfg.Namespace).Get(ctx, r.job.Name, metav1.GetOptions{})
	})
	if err != nil {
		return snapshot{}, err
	}
	pods, err := retry(ctx, func(ctx context.Context) (*corev1.PodList, error) {
		return r.c.cfg.Client.Pods(r.c.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.podSelector()})
	})
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{job: job}
	for i := range pods.Items {
		p := &pods.Items[i]
		if metav1.IsControlledBy(p, job) && (s.pod == nil || s.pod.CreationTimestamp.Before(&p.CreationTimestamp)) {
			s.pod = p
		}
	}
	return s, nil
}

func (r *run) podSelector() string { return batchv1.JobNameLabel + "=" + r.job.Name }

// endCondition returns the condition with which a Job has ended; ok is false if it has not.
func endCondition(job *batchv1.Job) (done batchv1.JobCondition, ok bool) {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
	if i < 0 {
		return batchv1.JobCondition{}, false
	}
	return job.Status.Conditions[i], true
}

// startProblem says whether something keeps a container from starting.
type startProblem int

const (
	noProblem startProblem = iota
	mayRecover
	isPermanent
)

func startProblemOf(reason string) startProblem {
	switch reason {
	case "InvalidImageName", "ErrImageNeverPull":
		return isPermanent
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return mayRecover
	default:
		return noProblem
	}
}

// progress describes in a few words what a pod does.
func progress(pod *corev1.Pod) (string, startProblem) {
	if pod == nil {
		return "waiting for a pod", noProblem
	}
	for i := range pod.Status.ContainerStatuses {
		state := &pod.Status.ContainerStatuses[i].State
		switch {
		case state.Running != nil:
			return "running", noProblem
		case state.Terminated != nil:
			return "finishing", noProblem
		case state.Waiting != nil:
			return withReason("starting", state.Waiting.Reason, state.Waiting.Message), startProblemOf(state.Waiting.Reason)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return withReason("pending", c.Reason, c.Message), noProblem
		}
	}
	if pod.Spec.NodeName != "" {
		return "scheduled", noProblem
	}
	return "pending", noProblem
}

func withReason(what, reason, message string) string {
	for _, more := range []string{reason, message} {
		if more != "" {
			what += ": " + strings.Join(strings.Fields(clip.Bytes(more, 300)), " ")
		}
	}
	return what
}

// collect returns the result of a finished Job.
func (r *run) collect(ctx context.Context, seen snapshot, done batchv1.JobCondition) (agent.ContainerResult, error) {
	var result agent.ContainerResult
	ended := terminatedState(seen.pod)
	var message string
	if ended != nil {
		result.ExitCode, message = ended.ExitCode, ended.Message
	}
	if seen.pod != nil {
		out, err := retry(ctx, func(ctx context.Context) (output, error) { return r.logs(ctx, seen.pod.Name) })
		switch {
		case err == nil:
			result.Logs, result.LogsCut = out.text, out.cut
		case ctx.Err() != nil:
			return result, agent.Interrupted(ctx, op)
		case !isFinal(err):
			return result, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err} // the next attempt reads them
		}
	}
	result.Result, result.Logs = resultOf(message, result.Logs)
	if done.Type == batchv1.JobComplete {
		if seen.pod == nil {
			result.Failure = &agent.Failure{Type: agent.OutcomeUnknown, Message: "the container has succeeded, and its pod is gone with what it answered"}
		}
		return result, nil
	}
	result.Failure = r.failure(seen.pod, ended, done, result.Logs)
	return result, nil
}

func terminatedState(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			return t
		}
	}
	return nil
}

// maxQuote is the number of bytes that a failure quotes from the end of a container's logs.
const maxQuote = 2 << 10

// failure says why a container did not succeed.
func (r *run) failure(pod *corev1.Pod, ended *corev1.ContainerStateTerminated, done batchv1.JobCondition, logs string) *agent.Failure {
	f := &agent.Failure{Type: string(agent.CodeInvalid)}
	switch {
	case done.Reason == batchv1.JobReasonDeadlineExceeded, pod != nil && pod.Status.Reason == "DeadlineExceeded":
		f.Type, f.Message = string(agent.CodeUnavailable), fmt.Sprintf("the container took longer than %s and was stopped", r.req.timeout)
		if what, _ := progress(pod); ended == nil && what != "running" {
			f.Message += " (" + what + ")"
		}
	case ended != nil && ended.Reason == "OOMKilled":
		f.Type, f.Message = string(agent.CodeOverflow), fmt.Sprintf("the container used more than its %s of memory", r.req.memory.String())
	case pod != nil && pod.Status.Reason == "Evicted":
		f.Type, f.Message = string(agent.CodeOverflow), withReason("the container was evicted", pod.Status.Message, "")
	case ended != nil:
		f.Message = fmt.Sprintf("the container exited with code %d", ended.ExitCode)
	default:
		f.Type, f.Message = string(agent.CodeUnavailable), withReason("the job failed", done.Reason, done.Message)
	}
	if end := strings.TrimSpace(tail(logs, maxQuote)); end != "" {
		f.Message += ":\n" + end
	}
	return f
}
