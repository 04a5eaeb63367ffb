package kube

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

var jobPattern = regexp.MustCompile(`^turnstone-[0-9a-f]{32}$`)

// Status returns the state of a Job that an earlier call of the tenant created, and its result if it has ended. The error is [agent.CodeInvalid] for an
// invalid name, [agent.CodeNotFound] for a deleted Job and for another tenant's, [agent.CodeDenied] if the cluster refuses the request, and
// [agent.CodeUnavailable] if the cluster cannot be reached.
func (c *Cluster) Status(ctx context.Context, tenant, name string) (agent.ContainerStatus, error) {
	if !jobPattern.MatchString(name) {
		return agent.ContainerStatus{}, agent.Invalid("job", "%.80q is no job's name: want the job of an earlier answer of delegate_to_agent", name)
	}
	r := &run{c: c, name: name}
	found, newest, err := r.read(ctx)
	switch {
	case ctx.Err() != nil:
		return agent.ContainerStatus{}, agent.Interrupted(ctx, op)
	case hasCode(err, http.StatusNotFound), err == nil && found.Metadata.Annotations[markTenant] != annotation(tenant):
		return agent.ContainerStatus{}, agent.FieldErrorf(agent.CodeNotFound, "job",
			"there is no job %s; finished jobs are kept for %s", name, c.cfg.TTL)
	case err != nil && isFinal(err):
		return agent.ContainerStatus{}, agent.Errorf(agent.CodeDenied, "", "%s", refusal(err))
	case err != nil:
		return agent.ContainerStatus{}, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
	}
	status := agent.ContainerStatus{Job: name, State: agent.ContainerRunning}
	done, ok := found.end()
	if !ok {
		status.Detail, _ = progress(newest)
		return status, nil
	}
	r.job, r.req = found, requestOf(found)
	if status.Result, err = r.collect(ctx, newest, done); err != nil {
		return agent.ContainerStatus{}, err
	}
	status.Result.Job, status.State = name, agent.ContainerSucceeded
	if done.Type == jobFailed {
		status.State = agent.ContainerFailed
	}
	return status, nil
}

// requestOf returns the limits of a Job, which explain its failure.
func requestOf(j *job) *request {
	spec := &j.Spec.Template.Spec
	r := &request{timeout: time.Duration(spec.ActiveDeadlineSeconds) * time.Second}
	for _, c := range spec.Containers {
		if c.Name == containerName {
			r.memory.text = c.Resources.Limits["memory"]
		}
	}
	return r
}
