package kube

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	job  *batchv1.Job // as it was when we found or made it
	last string       // the last progress that was reported
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
	r := &run{c: c, req: req, want: want}
	result, err := r.run(ctx)
	result.Job = want.job.Name
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
	if r.job.Spec.Suspend == nil || !*r.job.Spec.Suspend {
		r.report("following the job that an earlier attempt has started")
		return nil, nil //nolint:nilnil // neither a failure nor an error: it runs
	}
	if err := r.addInput(ctx); err != nil {
		return r.notStarted(ctx, err)
	}
	jobs := r.c.cfg.Client.Jobs(r.c.cfg.Namespace)
	_, err = retry(ctx, func(ctx context.Context) (*batchv1.Job, error) {
		return jobs.Patch(ctx, r.job.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	})
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // neither a failure nor an error: it runs
	case apierrors.IsNotFound(err):
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
	jobs := r.c.cfg.Client.Jobs(r.c.cfg.Namespace)
	get := func(ctx context.Context) (*batchv1.Job, error) {
		return jobs.Get(ctx, r.want.job.Name, metav1.GetOptions{})
	}
	var job *batchv1.Job
	var err error
	if r.req.in.Attempt > 1 {
		job, err = retry(ctx, get)
	} else {
		job, err = retry(ctx, func(ctx context.Context) (*batchv1.Job, error) {
			made, err := jobs.Create(ctx, r.want.job, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return get(ctx)
			}
			return made, err
		})
	}
	switch {
	case err == nil && !r.isOurs(job):
		return &agent.Failure{
			Type: string(agent.CodeConflict), Message: "the cluster has a job of this call's name that is for something else: " + job.Name,
		}, nil
	case err == nil && job.DeletionTimestamp != nil, r.req.in.Attempt > 1 && apierrors.IsNotFound(err):
		return jobGoneFailure(), nil
	case err == nil:
		r.job = job
		return nil, nil //nolint:nilnil // neither a failure nor an error: r.job is there
	case r.req.in.Attempt > 1 && !isFinal(err):
		return nil, &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err} // there may be one to follow
	default:
		return r.notStarted(ctx, err)
	}
}

// isOurs reports whether a Job of the call's name was made for the same request.
func (r *run) isOurs(job *batchv1.Job) bool {
	return job.Annotations[noteRequest] == r.want.job.Annotations[noteRequest]
}

// addInput gives a suspended Job its input. The Job owns it, so that it is deleted with the Job.
func (r *run) addInput(ctx context.Context) error {
	input := r.want.input.DeepCopy()
	input.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: r.job.Name, UID: r.job.UID,
		Controller: new(true), BlockOwnerDeletion: new(false),
	}}
	secrets := r.c.cfg.Client.Secrets(r.c.cfg.Namespace)
	_, err := retry(ctx, func(ctx context.Context) (*corev1.Secret, error) {
		made, err := secrets.Create(ctx, input, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		// It is from an earlier attempt, or belongs to a Job that is gone and is about to be deleted.
		made, err = secrets.Get(ctx, input.Name, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(made, r.job) {
			err = apierrors.NewTooManyRequestsError("the input of an earlier job is still there")
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
	jobs := r.c.cfg.Client.Jobs(r.c.cfg.Namespace)
	_, err := retry(ctx, func(ctx context.Context) (struct{}, error) {
		var none struct{}
		job := r.job
		if job == nil { // it may have been made although the answer was lost
			var err error
			if job, err = jobs.Get(ctx, r.want.job.Name, metav1.GetOptions{}); err != nil || !r.isOurs(job) {
				return none, err
			}
		}
		return none, jobs.Delete(ctx, job.Name, metav1.DeleteOptions{
			PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: new(job.UID)},
		})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		r.c.cfg.Logger.Warn("delete job", zap.String("job", r.want.job.Name), zap.Error(err))
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

// isFinal reports whether the API has answered, and would answer the same again.
func isFinal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsUnexpectedServerError(err):
		return false
	default:
		return true
	}
}

// maxAPIMessage is the maximum number of bytes that a failure quotes of the cluster.
const maxAPIMessage = 500

func apiFailure(err error, so string) *agent.Failure {
	f := &agent.Failure{Type: string(agent.CodeUnavailable), Retryable: !isFinal(err)}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		f.Type = string(agent.CodeDenied)
		f.Message = "the cluster refuses: " + clip.Bytes(err.Error(), maxAPIMessage) + "; " + so
	case isFinal(err):
		f.Message = "the cluster refuses: " + clip.Bytes(err.Error(), maxAPIMessage) + "; " + so
	default:
		f.Message = "the cluster cannot be reached; " + so
	}
	return f
}

// jobGoneFailure returns the failure of a Job that is not there any more.
func jobGoneFailure() *agent.Failure {
	return &agent.Failure{
		Type: agent.OutcomeUnknown, Message: "the job of this call is gone from the cluster; it may have run, and was not started again",
	}
}
