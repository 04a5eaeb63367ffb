package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
)

func (a *app) jobsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "jobs", Short: "Jobs through a Redis queue, as an orchestrator sends them",
		Long: `Jobs through a Redis queue, as an orchestrator sends them. These commands speak to Redis alone: a worker that has jobs.redis_url takes the
job from there, and puts its result there.`,
		Example: `  export TURNSTONE_JOBS_REDIS_URL=redis://127.0.0.1:6379
  starter jobs push "fetch flights from NYC to LAX, sort by price, show top 3" --wait
  starter jobs push --job-id nightly-7 "summarize the day" && starter jobs wait nightly-7 --timeout 10m`,
	}, a.jobsPushCommand(), a.jobsWaitCommand())
}

// redisFlags are the flags for Redis and the names of its lists.
type redisFlags struct{ url, queue, results string }

func (f *redisFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "redis", "", "redis://, rediss:// or unix:// (env TURNSTONE_JOBS_REDIS_URL)")
	cmd.Flags().StringVar(&f.results, "results", jobs.DefaultResultPrefix, "what the lists of results begin with")
}

// withQueue calls do with a client of the queue, until Ctrl-C.
func (a *app) withQueue(ctx context.Context, f *redisFlags, do func(context.Context, *jobs.Client) error) (err error) {
	address := cmp.Or(f.url, a.redis)
	if address == "" {
		return usageError{errors.New("--redis is missing, and TURNSTONE_JOBS_REDIS_URL is not set")}
	}
	c, err := jobs.NewClient(jobs.ClientConfig{URL: address, Queue: f.queue, ResultPrefix: f.results})
	if err != nil {
		return usageError{fmt.Errorf("--redis: %w", err)}
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return a.untilInterrupted(ctx, func(ctx context.Context) error {
		err := do(ctx, c)
		if errors.Is(context.Cause(ctx), errInterrupted) {
			return errInterrupted
		}
		return err
	})
}

// jobFlags are the flags of jobs push.
type jobFlags struct {
	job     job.Job
	timeout time.Duration
	file    string
	wait    bool
	grace   time.Duration // time to wait for the result after the job's timeout
}

func (a *app) jobsPushCommand() *cobra.Command {
	var redis redisFlags
	f := jobFlags{grace: time.Minute}
	cmd := &cobra.Command{
		Use: "push <prompt>|- [flags]", Short: "Push a job and print its id, or wait for its result",
		Long: `Push a job and print its id, or, with --wait, wait for its result and print that. "-" reads the prompt from standard input; --file is a
whole job message, of which flags change what they name.

The same job id with the same --retry is one job, however often it is pushed, with one result. One that has ended within the last day is
refused.

--wait waits for the job's --timeout and a minute. Then, as when it is interrupted, the job goes on. When the job waits for a person,
standard error says how to decide, and --wait goes on to the result.

Exit codes with --wait: 0 the job completed, 1 it failed, 3 there was no result in time, 4 it was cancelled, 130 interrupted.`,
		Example: `  starter jobs push "fetch flights from NYC to LAX" --run-id run-7 --node-id flights
  starter jobs push --file message.json --retry 1 --wait -o json
  starter jobs push - --session trip-1 --timeout 2m < prompt.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withQueue(cmd.Context(), &redis, func(ctx context.Context, c *jobs.Client) error {
				j, err := f.newJob(ctx, cmd.Flags(), a, strings.Join(args, " "))
				if err != nil {
					return usageError{err}
				}
				return a.pushJob(ctx, c, &j, &f, redis.queue)
			})
		},
	}
	redis.register(cmd)
	cmd.Flags().StringVar(&redis.queue, "queue", jobs.DefaultQueue, "list that jobs are pushed to")
	cmd.Flags().StringVar(&f.job.JobID, "job-id", "", "of the job (default: a new one)")
	cmd.Flags().StringVar(&f.job.RunID, "run-id", "", "of the orchestrator's run")
	cmd.Flags().StringVar(&f.job.NodeID, "node-id", "", "of the node that asks")
	cmd.Flags().StringVarP(&f.job.Context.SessionID, "session", "s", "", "conversation to continue")
	cmd.Flags().StringVarP(&f.job.Context.Agent, "agent", "a", "", "agent to ask (default: routing decides)")
	cmd.Flags().StringVar(&f.job.UserID, "user", "", "who asks")
	cmd.Flags().DurationVar(&f.timeout, "timeout", job.DefaultTimeoutSec*time.Second, "how long the job may work")
	cmd.Flags().IntVar(&f.job.RetryCount, "retry", 0, "which attempt this is")
	cmd.Flags().StringVar(&f.file, "file", "", "a job message to push, - for standard input")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for the result")
	return cmd
}

// newJob returns the job for the flags and the prompt.
func (f *jobFlags) newJob(ctx context.Context, flags *pflag.FlagSet, a *app, prompt string) (job.Job, error) {
	if f.timeout < time.Second || f.timeout%time.Second != 0 {
		return job.Job{}, fmt.Errorf("--timeout is %s, want whole seconds", f.timeout)
	}
	f.job.TimeoutSec = int(f.timeout / time.Second)
	if f.file != "" {
		return f.readJob(ctx, flags, a, prompt)
	}
	j := f.job
	j.Prompt, j.JobID = prompt, cmp.Or(j.JobID, uuid.NewString())
	switch prompt {
	case "":
		return j, errors.New("give a prompt, - or --file")
	case "-":
		text, err := readAll(ctx, a.in, job.MaxPromptBytes+1)
		if err != nil {
			return j, err
		}
		j.Prompt = strings.TrimSpace(string(text))
	}
	return validateJob(&j)
}

// readJob returns the job in the file of --file, changed by the other flags.
func (f *jobFlags) readJob(ctx context.Context, flags *pflag.FlagSet, a *app, prompt string) (job.Job, error) {
	if prompt != "" {
		return job.Job{}, errors.New("give a prompt or --file, not both")
	}
	raw, err := a.readInput(ctx, f.file)
	if err != nil {
		return job.Job{}, fmt.Errorf("%s: %w", f.file, err)
	}
	j, err := job.Parse(raw)
	if err != nil {
		return j, fmt.Errorf("%s: %w", f.file, err)
	}
	applyFlags(flags, map[string]func(){
		"job-id":  func() { j.JobID = f.job.JobID },
		"run-id":  func() { j.RunID = f.job.RunID },
		"node-id": func() { j.NodeID = f.job.NodeID },
		"session": func() { j.Context.SessionID = f.job.Context.SessionID },
		"agent":   func() { j.Context.Agent = f.job.Context.Agent },
		"user":    func() { j.UserID = f.job.UserID },
		"timeout": func() { j.TimeoutSec = f.job.TimeoutSec },
		"retry":   func() { j.RetryCount = f.job.RetryCount },
	})
	return validateJob(&j)
}

// validateJob returns the job, and an error if a worker would refuse it.
func validateJob(j *job.Job) (job.Job, error) {
	_, err := j.Encode()
	return *j, err
}

func (a *app) pushJob(ctx context.Context, c *jobs.Client, j *job.Job, f *jobFlags, queue string) error {
	err := c.Push(ctx, *j)
	switch {
	case agent.CodeOf(err) == agent.CodeConflict:
		return fmt.Errorf("%w; see it with: starter results get %s; push it again with --retry %d", err, clipName(j.JobID), j.RetryCount+1)
	case err != nil:
		return err
	case f.wait:
		a.printNote("pushed job %s to %s", clipName(j.JobID), clipName(queue))
		return a.waitForJob(ctx, c, j.JobID, f.waitTime(j))
	}
	return a.printResult(map[string]string{"job_id": j.JobID, "queue": queue}, "job      %s\nqueue    %s", clipName(j.JobID), clipName(queue))
}

// waitTime returns how long to wait for the result of a new job.
func (f *jobFlags) waitTime(j *job.Job) time.Duration {
	return time.Duration(cmp.Or(j.TimeoutSec, job.DefaultTimeoutSec))*time.Second + f.grace
}

func (a *app) jobsWaitCommand() *cobra.Command {
	var redis redisFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait <job id>", Short: "Wait for the result of a job and print it", Args: cobra.ExactArgs(1),
		Long: `Wait for the result of a job and print it. It is taken off its list: there is one, and nobody else gets it any more, a second wait neither.
The server has it still: starter results get <job id>.

Exit codes: 0 the job completed, 1 it failed, 3 there was no result in time, 4 it was cancelled, 130 interrupted.`,
		Example: `  starter jobs wait nightly-7 --timeout 10m
  starter jobs wait nightly-7 -o json | jq .result_preview`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseNegative("timeout", timeout, 0); err != nil {
				return err
			}
			if args[0] == "" {
				return usageError{errors.New("the job id is empty")}
			}
			return a.withQueue(cmd.Context(), &redis, func(ctx context.Context, c *jobs.Client) error { return a.waitForJob(ctx, c, args[0], timeout) })
		},
	}
	redis.register(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait; 0: until it comes")
	return cmd
}

// waitForJob waits for the result of a job and prints it. The error is that of the job. While the job waits for a person, it prints how to decide.
func (a *app) waitForJob(ctx context.Context, c *jobs.Client, id string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	r, err := c.Wait(ctx, id)
	for ; err == nil && r.Waiting; r, err = c.Wait(ctx, id) {
		if r.Error != nil {
			a.printNote("%s", r.Error.Message)
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		return agent.Errorf(agent.CodeUnavailable, "", "no result of job %q within %s: it may not have ended yet, or its result has been taken; "+
			"starter results get %s shows it then", id, timeout, clipName(id))
	case err != nil:
		return err
	}
	err = a.print(r, func() error {
		a.printJob(&r)
		return nil
	})
	switch {
	case err != nil:
		return err
	case r.Status == job.StatusCompleted:
		return nil
	case r.Error != nil && r.Error.Type == string(agent.CodeCancelled):
		return turnEnded{agent.TurnCancelled}
	default:
		return turnEnded{agent.TurnFailed}
	}
}

func (a *app) printJob(r *job.Result) {
	a.printField("job", r.JobID)
	a.printField("status", string(r.Status))
	if r.Error != nil {
		a.printField("error", r.Error.Type+": "+r.Error.Message)
	}
	a.printField("result", r.ResultRef)
	if m := r.Metadata; m != nil {
		a.printField("turn", string(m.TurnID))
		a.printField("session", string(m.SessionID))
		a.printField("model", m.LLMModel)
		a.printField("time", (time.Duration(m.ExecutionTimeMS) * time.Millisecond).String())
		a.printField("tokens", fmt.Sprintf("%d (%d cached)", m.TokensUsed, m.CachedTokens))
		var calls []struct {
			Tool     string `json:"tool"`
			Status   string `json:"status"`
			CacheHit bool   `json:"cache_hit"`
		}
		if json.Unmarshal(m.ToolCalls, &calls) == nil {
			for _, call := range calls {
				a.printToolCall(call.Tool, call.Status, call.CacheHit, "")
			}
		}
	}
	a.printPreview(r.ResultPreview)
	a.printText(r.Output)
}
