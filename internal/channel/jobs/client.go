package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// ClientConfig is the configuration of [NewClient].
type ClientConfig struct {
	URL          string         // as [Config.URL]
	Redis        *redis.Options // replaces URL; nil: use URL
	Queue        string         // "": agent:jobs
	ResultPrefix string         // "": agent:results
}

// Client is a producer of jobs. It may be used by several goroutines.
type Client struct {
	redis *redis.Client
	queue queue
}

// NewClient returns a client that connects when it is first used. The caller must close it.
func NewClient(cfg ClientConfig) (*Client, error) {
	client, err := newClient(cfg.URL, cfg.Redis)
	if err != nil {
		return nil, err
	}
	return &Client{redis: client, queue: queue{
		redis: client, name: cmp.Or(cfg.Queue, DefaultQueue), results: cmp.Or(cfg.ResultPrefix, DefaultResultPrefix),
	}}, nil
}

// Push puts a job at the end of the queue. The error of an invalid job names the field. [agent.CodeConflict] means that this attempt has ended
// within the last day and nothing was pushed: another try needs a higher retry count. After [agent.CodeUnavailable], the job may be in the queue
// or not. The caller may push it again: a job that is in the queue twice still has one result.
func (c *Client) Push(ctx context.Context, j job.Job) error {
	if j.CreatedAt.IsZero() {
		j.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
	}
	raw, err := j.Encode()
	if err != nil {
		return err
	}
	mark, err := c.queue.push(ctx, &j, raw)
	switch {
	case err != nil:
		return &agent.Error{Code: agent.CodeUnavailable, Op: "push job to Redis", Err: err}
	case mark != "":
		return agent.Errorf(agent.CodeConflict, "", "job %q has ended already: its attempt %d is %s", j.JobID, j.RetryCount, mark)
	default:
		return nil
	}
}

// Wait waits for a result of the job and removes it from Redis. If several callers wait, one of them gets the result. While Redis is unavailable,
// Wait retries. If ctx ends first, the error is [agent.CodeCancelled] or [agent.CodeUnavailable], up to a second later.
func (c *Client) Wait(ctx context.Context, jobID string) (job.Result, error) {
	const op = "wait for result"
	if jobID == "" {
		return job.Result{}, agent.Invalid("job_id", "is missing")
	}
	key := c.queue.result(jobID)
	wait := newBackoff(time.Second)
	for {
		if err := agent.Interrupted(ctx, op); err != nil {
			return job.Result{}, err
		}
		// This command leaves the result in the list: a result that BLPOP removed would be lost if the connection broke.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), popTimeout+takeGrace)
		raw, err := redis.String(c.redis.Wait(bounded, popTimeout, "BLMOVE", key, key, "LEFT", "LEFT", popTimeout.Seconds()))
		cancel()
		switch {
		case errors.Is(err, redis.ErrNil):
			wait.Reset()
			continue
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			return job.Result{}, agent.Errorf(agent.CodeInvalid, op, "%w", err)
		case err != nil:
			pause(ctx, wait.NextBackOff())
			continue
		}
		if !c.claim(ctx, key, raw) {
			continue
		}
		r, err := job.ParseResult([]byte(raw))
		if err != nil {
			return job.Result{}, fmt.Errorf("read result of job %q: %w", jobID, err)
		}
		return r, nil
	}
}

// claim removes a result from its list. It reports false if another caller has removed it. After an error of Redis, which may have removed the
// result nevertheless, it reports true.
func (c *Client) claim(ctx context.Context, key, raw string) bool {
	wait := newBackoff(time.Second)
	for hadError := false; ; hadError = true {
		n, err := redis.Int(c.redis.Do(context.WithoutCancel(ctx), "LREM", key, 1, raw))
		if err == nil {
			return n > 0 || hadError
		}
		if !pause(ctx, wait.NextBackOff()) {
			return true
		}
	}
}

// Close closes the connections.
func (c *Client) Close() error { return c.redis.Close() }
