package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// follow reads the Job until it has finished, and returns its result.
func (r *run) follow(ctx context.Context) (agent.ContainerResult, error) {
	tick := time.NewTicker(r.c.cfg.PollInterval)
	defer tick.Stop()
	var troubled time.Time // since when the image cannot be pulled
	for {
		found, newest, err := r.read(ctx)
		switch {
		case hasCode(err, http.StatusNotFound):
			return agent.ContainerResult{Failure: jobGoneFailure()}, nil
		case err != nil && isFinal(err):
			return agent.ContainerResult{}, agent.Errorf(agent.CodeUnavailable, op, "%s", refusal(err))
		case err != nil:
			return agent.ContainerResult{}, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
		case found.Metadata.UID != r.job.Metadata.UID:
			return agent.ContainerResult{Failure: jobGoneFailure()}, nil
		}
		if done, ok := found.end(); ok {
			return r.collect(ctx, newest, done)
		}
		what, problem := progress(newest)
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

// read returns the Job and its newest pod, or nil if there is none yet.
func (r *run) read(ctx context.Context) (found *job, newest *pod, err error) {
	if found, err = retry(ctx, r.getJob); err != nil {
		return nil, nil, err
	}
	pods, err := retry(ctx, func(ctx context.Context) (*struct{ Items []*pod }, error) {
		selector := url.Values{"labelSelector": {"batch.kubernetes.io/job-name=" + r.name}}
		return call[struct{ Items []*pod }](ctx, r.c.cfg.Client, http.MethodGet, r.c.podsPath()+"?"+selector.Encode(), nil)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range pods.Items {
		if p.Metadata.isControlledBy(found.Metadata.UID) && (newest == nil || newest.Metadata.CreationTimestamp.Before(p.Metadata.CreationTimestamp)) {
			newest = p
		}
	}
	return found, newest, nil
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
func progress(p *pod) (string, startProblem) {
	if p == nil {
		return "waiting for a pod", noProblem
	}
	switch state := p.container(); {
	case state.Running != nil:
		return "running", noProblem
	case state.Terminated != nil:
		return "finishing", noProblem
	case state.Waiting != nil:
		return withReason("starting", state.Waiting.Reason, state.Waiting.Message), startProblemOf(state.Waiting.Reason)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == podScheduled && c.Status == "False" {
			return withReason("pending", c.Reason, c.Message), noProblem
		}
	}
	if p.Spec.NodeName != "" {
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
func (r *run) collect(ctx context.Context, p *pod, done state) (agent.ContainerResult, error) {
	var result agent.ContainerResult
	ended := p.container().Terminated
	var message string
	if ended != nil {
		result.ExitCode, message = ended.ExitCode, ended.Message
	}
	if p != nil {
		out, err := retry(ctx, func(ctx context.Context) (output, error) { return r.logs(ctx, p.Metadata.Name) })
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
	if done.Type == jobComplete {
		if p == nil {
			result.Failure = &agent.Failure{Type: agent.OutcomeUnknown, Message: "the container has succeeded, and its pod is gone with what it answered"}
		}
		return result, nil
	}
	result.Failure = r.failure(p, ended, done, result.Logs)
	return result, nil
}

// maxQuote is the number of bytes that a failure quotes from the end of a container's logs.
const maxQuote = 2 << 10

// failure says why a container did not succeed.
func (r *run) failure(p *pod, ended *state, done state, logs string) *agent.Failure {
	f := &agent.Failure{Type: string(agent.CodeInvalid)}
	switch {
	case done.Reason == "DeadlineExceeded", p != nil && p.Status.Reason == "DeadlineExceeded":
		f.Type, f.Message = string(agent.CodeUnavailable), fmt.Sprintf("the container took longer than %s and was stopped", r.req.timeout)
		if what, _ := progress(p); ended == nil && what != "running" {
			f.Message += " (" + what + ")"
		}
	case ended != nil && ended.Reason == "OOMKilled":
		f.Type, f.Message = string(agent.CodeOverflow), fmt.Sprintf("the container used more than its %s of memory", r.req.memory.text)
	case p != nil && p.Status.Reason == "Evicted":
		f.Type, f.Message = string(agent.CodeOverflow), withReason("the container was evicted", p.Status.Message, "")
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
