package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// ClientConfig says where jobs go.
type ClientConfig struct {
	URL          string         // as [Config.URL]
	Redis        *redis.Options // in place of URL
	Queue        string         // "": agent:jobs
	ResultPrefix string         // "": agent:results
}

// Client is a producer of jobs. It may be used by several goroutines.
type Client struct {
	client *redis.Client
	queue  queue
}

// NewClient returns a client that connects when it is first used. Close it.
func NewClient(cfg ClientConfig) (*Client, error) {
	client, err := connect(cfg.URL, cfg.Redis)
	if err != nil {
		return nil, err
	}
	return &Client{client: client, queue: queue{
		client: client, name: cmp.Or(cfg.Queue, DefaultQueue), results: cmp.Or(cfg.ResultPrefix, DefaultResultPrefix),
	}}, nil
}

// Push puts a job at the end of the queue. A job that is no good is refused here, with the field. [agent.CodeConflict]: this attempt has ended
// within the last day, so nothing was pushed, and another try needs a higher retry count. [agent.CodeUnavailable] means that it may be in the
// queue or not: pushed again, it still has one result.
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

// Wait waits for a result of the job and takes it: of several who wait, one gets it. While Redis is away it goes on waiting, and a result that
// is lost on the way is read again. When ctx ends first, its error is [agent.CodeCancelled] or [agent.CodeUnavailable], up to a second later.
func (c *Client) Wait(ctx context.Context, jobID string) (job.Result, error) {
	const op = "wait for result"
	if jobID == "" {
		return job.Result{}, agent.Invalid("job_id", "is missing")
	}
	key := c.queue.result(jobID)
	wait := patience(time.Second)
	for {
		if err := agent.Interrupted(ctx, op); err != nil {
			return job.Result{}, err
		}
		// A pop whose answer is lost would take the result with it. This leaves it where it is.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), block+takeGrace)
		raw, err := c.client.BLMove(bounded, key, key, "LEFT", "LEFT", block).Result()
		cancel()
		switch {
		case errors.Is(err, redis.Nil):
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

// claim takes a result out of its list and reports whether it is the caller's: nobody else took it first. When that cannot be known, it is.
func (c *Client) claim(ctx context.Context, key, raw string) bool {
	wait := patience(time.Second)
	for doubtful := false; ; doubtful = true {
		n, err := c.client.LRem(context.WithoutCancel(ctx), key, 1, raw).Result()
		if err == nil {
			return n > 0 || doubtful
		}
		if !pause(ctx, wait.NextBackOff()) {
			return true
		}
	}
}

// Close ends the connections.
func (c *Client) Close() error { return c.client.Close() }
