package kube

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	apiPatience   = 30 * time.Second // how long the cluster's API may be away
	apiTimeout    = 10 * time.Second // of one request to it, besides logs
	cleanPatience = 10 * time.Second // for deleting a Job when the call's own time is over
	firstDelay    = 100 * time.Millisecond
)

// run is one attempt of a call.
type run struct {
	c    *Cluster
	req  *request
	want *manifest
	name string // of the Job
	job  *job   // as it was when we found or made it
	last string // the last progress that was reported
}

// Run runs a container to its end, or follows the one that an earlier attempt has started. The result says what the container did, or
// that it failed, or that the cluster could not be reached before anything had started.
//
// Errors are [agent.Error]: those of a bad request with Field, [agent.CodeUnavailable] when a started Job cannot be followed any more,
// for the next attempt to go on, and the context's own.
func (c *Cluster) Run(ctx context.Context, in agent.Container) (agent.ContainerResult, error) {
	req, err := c.request(in)
	if err != nil {
		return agent.ContainerResult{}, err
	}
	want, err := c.manifest(req)
	if err != nil {
		return agent.ContainerResult{}, err
	}
	r := &run{c: c, req: req, want: want, name: want.name}
	result, err := r.run(ctx)
	result.Job = r.name
	if ctx.Err() != nil && (err != nil || result.Failure != nil) {
		return r.interrupted(ctx, result)
	}
	return result, err
}

func (r *run) run(ctx context.Context) (agent.ContainerResult, error) {
	failure, err := r.start(ctx)
	if failure != nil || err != nil {
		return agent.ContainerResult{Failure: failure}, err
	}
	return r.follow(ctx)
}

// start makes the Job run its container, from wherever an earlier attempt has left it.
func (r *run) start(ctx context.Context) (*agent.Failure, error) {
	failure, err := r.find(ctx)
	if failure != nil || err != nil {
		return failure, err
	}
	if !r.job.Spec.Suspend {
		r.report("following the job that an earlier attempt has started")
		return nil, nil //nolint:nilnil // neither a failure nor an error: it runs
	}
	if err := r.addInput(ctx); err != nil {
		return r.notStarted(ctx, err)
	}
	_, err = retry(ctx, func(ctx context.Context) (*job, error) {
		return call[job](ctx, r.c.cfg.Client, http.MethodPatch, r.c.jobsPath()+"/"+r.name, object{"spec": object{"suspend": false}})
	})
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // neither a failure nor an error: it runs
	case hasCode(err, http.StatusNotFound):
		return jobGoneFailure(), nil
	case isFinal(err):
		return r.notStarted(ctx, err)
	default: // it may have been started all the same: the next attempt finds out
		return nil, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
	}
}

// notStarted deletes the Job and returns the failure that nothing has run. The next attempt continues a call that was interrupted.
func (r *run) notStarted(ctx context.Context, err error) (*agent.Failure, error) {
	if ctx.Err() != nil {
		return nil, agent.Interrupted(ctx, op)
	}
	r.remove(ctx)
	return apiFailure(err, "nothing was started"), nil
}

// find gets the Job, or creates it if no earlier attempt can have started one.
func (r *run) find(ctx context.Context) (*agent.Failure, error) {
	found, err := retry(ctx, func(ctx context.Context) (*job, error) {
		if r.req.in.Attempt > 1 {
			return r.getJob(ctx)
		}
		made, err := call[job](ctx, r.c.cfg.Client, http.MethodPost, r.c.jobsPath(), r.want.job)
		if alreadyExists(err) {
			return r.getJob(ctx)
		}
		return made, err
	})
	switch {
	case err == nil && !r.isOurs(found):
		return &agent.Failure{
			Type: string(agent.CodeConflict), Message: "the cluster has a job of this call's name that is for something else: " + r.name,
		}, nil
	case err == nil && found.Metadata.DeletionTimestamp != nil, r.req.in.Attempt > 1 && hasCode(err, http.StatusNotFound):
		return jobGoneFailure(), nil
	case err == nil:
		r.job = found
		return nil, nil //nolint:nilnil // neither a failure nor an error: r.job is there
	case r.req.in.Attempt > 1 && !isFinal(err):
		return nil, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err} // there may be one to follow
	default:
		return r.notStarted(ctx, err)
	}
}

func (r *run) getJob(ctx context.Context) (*job, error) {
	return call[job](ctx, r.c.cfg.Client, http.MethodGet, r.c.jobsPath()+"/"+r.name, nil)
}

// isOurs reports whether a Job of the call's name was made for the same request.
func (r *run) isOurs(j *job) bool { return j.Metadata.Annotations[noteRequest] == r.want.request }

// addInput gives a suspended Job its input.
func (r *run) addInput(ctx context.Context) error {
	input, path := r.want.ownedInput(r.job), r.c.secretsPath()
	_, err := retry(ctx, func(ctx context.Context) (*secret, error) {
		made, err := call[secret](ctx, r.c.cfg.Client, http.MethodPost, path, input)
		if !alreadyExists(err) {
			return made, err
		}
		// It is from an earlier attempt, or belongs to a Job that is gone and is about to be deleted.
		made, err = call[secret](ctx, r.c.cfg.Client, http.MethodGet, path+"/"+r.name, nil)
		if err == nil && !made.Metadata.isControlledBy(r.job.Metadata.UID) {
			err = errors.New("the input of an earlier job is still there")
		}
		return made, err
	})
	return err
}

// interrupted ends a run whose context has ended. A cancelled turn deletes the container. If the worker stops, or another attempt has
// begun, the container stays for the next attempt.
func (r *run) interrupted(ctx context.Context, result agent.ContainerResult) (agent.ContainerResult, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.remove(ctx)
		result.Failure = &agent.Failure{
			Type: string(agent.CodeUnavailable), Message: "the call's time was over, and the container was stopped; what it did until then is done",
		}
		return result, nil
	case agent.CodeOf(cause) == agent.CodeCancelled, errors.Is(cause, agent.ErrStreamClosed):
		r.remove(ctx)
	}
	return result, agent.Interrupted(ctx, op)
}

// remove deletes the Job, its pods and its input, also after the call's context has ended. A Job that cannot be deleted ends at its
// deadline.
func (r *run) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	_, err := retry(ctx, func(ctx context.Context) (*struct{}, error) {
		found := r.job
		if found == nil { // it may have been made although the answer was lost
			var err error
			if found, err = r.getJob(ctx); err != nil || !r.isOurs(found) {
				return nil, err
			}
		}
		return call[struct{}](ctx, r.c.cfg.Client, http.MethodDelete, r.c.jobsPath()+"/"+r.name, object{
			"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": object{"uid": found.Metadata.UID},
		})
	})
	if err != nil && !hasCode(err, http.StatusNotFound) {
		r.c.cfg.Logger.Warn("delete job", zap.String("job", r.name), zap.Error(err))
	}
}

// report sends progress, each message once.
func (r *run) report(message string) {
	if message == r.last {
		return
	}
	r.last = message
	if r.req.in.Report != nil {
		r.req.in.Report(message)
	}
}

// retry asks the cluster, and again while it may be away.
func retry[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = firstDelay
	return backoff.Retry(ctx, func() (T, error) {
		bounded, cancel := context.WithTimeout(ctx, apiTimeout)
		defer cancel()
		v, err := ask(bounded)
		if err != nil && (ctx.Err() != nil || isFinal(err)) {
			return v, backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(apiPatience))
}

// maxAPIMessage is the maximum number of bytes that a failure quotes of the cluster.
const maxAPIMessage = 500

func apiFailure(err error, so string) *agent.Failure {
	f := &agent.Failure{Type: string(agent.CodeUnavailable), Message: "the cluster cannot be reached; " + so, Retryable: !isFinal(err)}
	if hasCode(err, http.StatusForbidden, http.StatusUnauthorized) {
		f.Type = string(agent.CodeDenied)
	}
	if isFinal(err) || f.Type == string(agent.CodeDenied) {
		f.Message = refusal(err) + "; " + so
	}
	return f
}

func refusal(err error) string {
	return "the cluster refuses: " + clip.Bytes(err.Error(), maxAPIMessage)
}

// jobGoneFailure returns the failure of a Job that is not there any more.
func jobGoneFailure() *agent.Failure {
	return &agent.Failure{
		Type: agent.OutcomeUnknown, Message: "the job of this call is gone from the cluster; it may have run, and was not started again",
	}
}
