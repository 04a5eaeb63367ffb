package kube

import (
	"context"
	"regexp"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

var jobPattern = regexp.MustCompile(`^turnstone-[0-9a-f]{32}$`)

// Status reads the Job of an earlier call of the tenant once, and its result if it has ended. The error is [agent.CodeInvalid] for a name
// that is no Job's, [agent.CodeNotFound] for a Job that is gone or another tenant's, [agent.CodeDenied] when the cluster refuses, and
// [agent.CodeUnavailable] when it cannot be reached.
func (c *Cluster) Status(ctx context.Context, tenant, name string) (agent.ContainerStatus, error) {
	if !jobPattern.MatchString(name) {
		return agent.ContainerStatus{}, agent.Invalid("job", "%.80q is no job's name: want the job of an earlier answer of delegate_to_agent", name)
	}
	r := &run{c: c, job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	seen, err := r.read(ctx)
	switch {
	case ctx.Err() != nil:
		return agent.ContainerStatus{}, agent.Interrupted(ctx, op)
	case apierrors.IsNotFound(err), err == nil && seen.job.Annotations[noteTenant] != annotation(tenant):
		return agent.ContainerStatus{}, agent.FieldErrorf(agent.CodeNotFound, "job",
			"there is no job %s; finished jobs are kept for %s", name, c.cfg.TTL)
	case err != nil && isFinal(err):
		return agent.ContainerStatus{}, agent.Errorf(agent.CodeDenied, "", "the cluster refuses: %s", clip.Bytes(err.Error(), maxAPIMessage))
	case err != nil:
		return agent.ContainerStatus{}, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
	}
	status := agent.ContainerStatus{Job: name, State: agent.ContainerRunning}
	done, ok := endCondition(seen.job)
	if !ok {
		status.Detail, _ = progress(seen.pod)
		return status, nil
	}
	r.job, r.req = seen.job, requestOf(seen.job)
	if status.Result, err = r.collect(ctx, seen, done); err != nil {
		return agent.ContainerStatus{}, err
	}
	status.Result.Job, status.State = name, agent.ContainerSucceeded
	if done.Type == batchv1.JobFailed {
		status.State = agent.ContainerFailed
	}
	return status, nil
}

// requestOf returns the limits of a Job, which say why it failed.
func requestOf(job *batchv1.Job) *request {
	r := &request{}
	pod := &job.Spec.Template.Spec
	if pod.ActiveDeadlineSeconds != nil {
		r.timeout = time.Duration(*pod.ActiveDeadlineSeconds) * time.Second
	}
	for i := range pod.Containers {
		r.memory = *pod.Containers[i].Resources.Limits.Memory()
	}
	return r
}
