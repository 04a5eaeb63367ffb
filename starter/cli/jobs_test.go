package cli

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
)

const (
	doneJob = `{"version":"1.3","job_id":"j1","status":"completed","result_ref":"artifact://7f","news":1,
		"result_preview":{"type":"dataset","row_count":3,"sample":[{"airline":"Delta","price":299}]},
		"output":"The cheapest costs $299.","metadata":{"tool_calls":[{"tool":"execute_pipeline","args":{},"status":"success","cache_hit":true}],
		"tokens_used":1523,"cache_hit":true,"execution_time_ms":1247,"llm_model":"gpt-4o","turn_id":"job-j1","session_id":"s"},
		"completed_at":"2024-10-12T10:30:15Z"}`
	failedJob = `{"version":"1.0","job_id":"j2","status":"failed","error":{"type":"execution_error","message":"connection timeout",
		"retryable":true,"tool":"execute_pipeline","step":"http_request"},"completed_at":"2024-10-12T10:30:15Z"}`
	cancelledJob = `{"version":"1.0","job_id":"j3","status":"failed","error":{"type":"cancelled","message":"enough","retryable":false}}`
)

// withRedis is a bench with a Redis server.
func withRedis(t *testing.T) (*bench, *miniredis.Miniredis) {
	t.Helper()
	b := setup(t)
	redis := miniredis.RunT(t)
	b.redis = "redis://" + redis.Addr()
	return b, redis
}

func pushedJobs(t *testing.T, redis *miniredis.Miniredis, queue string) []job.Job {
	t.Helper()
	messages, err := redis.List(queue)
	require.NoError(t, err)
	all := make([]job.Job, len(messages))
	for i := range messages {
		all[i], err = job.Parse([]byte(messages[i]))
		require.NoError(t, err)
	}
	return all
}

func TestJobsPush(t *testing.T) {
	b, redis := withRedis(t)
	require.Equal(t, 0, b.run(noInput(), "jobs", "push", "fetch", "flights"), b.screen.String())
	j := pushedJobs(t, redis, "agent:jobs")[0]
	require.Equal(t, "job      "+j.JobID+"\nqueue    agent:jobs\n", b.screen.out())
	require.Equal(t, "fetch flights", j.Prompt)
	require.Equal(t, 300, j.TimeoutSec)
	require.False(t, j.CreatedAt.IsZero())

	b.screen = &terminal{}
	require.Equal(t, 0, b.run(strings.NewReader("sort them\nby price\n"), strings.Fields("jobs push - --queue q --job-id j7 --run-id r --node-id n"+
		" --session s --agent analyst --user ann --timeout 2m --retry 1 -o json")...), b.screen.String())
	require.JSONEq(t, `{"job_id":"j7","queue":"q"}`, b.screen.out())
	j = pushedJobs(t, redis, "q")[0]
	j.CreatedAt = time.Time{}
	want := job.Job{
		Version: "1.0", JobID: "j7", RunID: "r", NodeID: "n", UserID: "ann", Prompt: "sort them\nby price", TimeoutSec: 120, RetryCount: 1,
		Context: job.Context{SessionID: "s", Agent: "analyst"},
	}
	require.Equal(t, want, j)

	// A message in a file, changed by flags.
	file := writeFile(t, `{"version":"1.2","job_id":"j8","prompt":"go","run_id":"r","user_id":"ann","context":{"session_id":"s",
		"workflow_state":{"step":1}},"timeout_sec":7,"created_at":"2024-10-12T10:30:00Z"}`, t.TempDir(), "message.json")
	require.Equal(t, 0, b.run(noInput(), "jobs", "push", "--file", file, "--queue", "f"), b.screen.String())
	require.Equal(t, 0, b.run(noInput(), "jobs", "push", "--file", file, "--queue", "f", "--retry", "2", "--run-id", "", "--session", "s2", "--timeout", "9s"))
	both := pushedJobs(t, redis, "f")
	require.Equal(t, []any{"j8", "r", "ann", "s", 7, 0}, []any{both[0].JobID, both[0].RunID, both[0].UserID, both[0].Context.SessionID, both[0].TimeoutSec, both[0].RetryCount})
	require.Equal(t, []any{"j8", "", "ann", "s2", 9, 2}, []any{both[1].JobID, both[1].RunID, both[1].UserID, both[1].Context.SessionID, both[1].TimeoutSec, both[1].RetryCount})
	require.Equal(t, `{"step":1}`, string(both[1].Context.WorkflowState))
	require.Equal(t, 2024, both[1].CreatedAt.Year())
	require.Equal(t, 0, b.run(strings.NewReader(`{"version":"1.0","job_id":"j9","prompt":"go"}`), "jobs", "push", "--file", "-"))
}

func TestJobsWait(t *testing.T) {
	b, redis := withRedis(t)
	for id, message := range map[string]string{"j1": doneJob, "j2": failedJob, "j3": cancelledJob} {
		_, err := redis.Push("agent:results:"+id, message)
		require.NoError(t, err)
	}
	b.steps("jobs wait", words(0, "j1"), words(exitFailed, "j2 --timeout 5s"), words(exitCancelled, "j3"))
	golden(t, "jobs_wait", b.screen.String())

	_, err := redis.Push("mine:j1", doneJob)
	require.NoError(t, err)
	r := answer[job.Result](b, "jobs", "wait", "j1", "--results", "mine")
	require.Equal(t, int64(1523), r.Metadata.TokensUsed)
	require.False(t, redis.Exists("mine:j1"), "the result is removed")
}

func TestJobsPushAndWait(t *testing.T) {
	b, redis := withRedis(t)
	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "jobs", "push", "go", "--job-id", "j2", "--wait") }()
	require.Eventually(t, func() bool { return redis.Exists("agent:jobs") }, 5*time.Second, time.Millisecond)
	_, err := redis.Push("agent:results:j2", failedJob)
	require.NoError(t, err)
	require.Equal(t, exitFailed, <-done)
	require.Contains(t, b.screen.String(), "pushed job j2 to agent:jobs\n")
	require.Contains(t, b.screen.out(), "error    execution_error: connection timeout")
}

// After a message that a job waits for a person, --wait waits for the result.
func TestJobsWaitForTheResultBehindAnApproval(t *testing.T) {
	b, redis := withRedis(t)
	asked := job.Approval{ApprovalID: "job-j1.1.c", Tool: "send_mail", Command: "starter approvals decide job-j1.1.c approve --by NAME"}
	pause := job.Waiting("j1", []job.Approval{asked}, time.Now())
	message, err := pause.Encode()
	require.NoError(t, err)
	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "jobs", "push", "go", "--job-id", "j1", "--wait") }()
	require.Eventually(t, func() bool { return redis.Exists("agent:jobs") }, 5*time.Second, time.Millisecond)
	_, err = redis.Push("agent:results:j1", string(message), doneJob)
	require.NoError(t, err)
	require.Equal(t, 0, <-done, b.screen.String())
	require.Contains(t, b.screen.String(), "the job waits for a person. To decide: starter approvals decide job-j1.1.c approve --by NAME. A second message")
	require.Contains(t, b.screen.out(), "status   completed")
	require.NotContains(t, b.screen.out(), "failed")
}

// Waiting ends even if another program has taken the result.
func TestJobsWaitIsBounded(t *testing.T) {
	b, _ := withRedis(t)
	require.Equal(t, 0, b.run(noInput(), "jobs", "wait", "--help"))
	require.Contains(t, b.screen.out(), "(default 5m0s)")

	client, err := jobs.NewClient(jobs.ClientConfig{URL: b.redis})
	require.NoError(t, err)
	defer client.Close()
	f := jobFlags{wait: true, grace: time.Minute}
	require.Equal(t, 6*time.Minute, f.waitTime(&job.Job{}))
	require.Equal(t, 70*time.Second, f.waitTime(&job.Job{TimeoutSec: 10}))
	f.grace = -999 * time.Millisecond
	a := &app{out: stream{b.screen, true}, errOut: stream{b.screen, false}}
	err = a.pushJob(t.Context(), client, &job.Job{JobID: "j", Prompt: "go", TimeoutSec: 1}, &f, "q")
	require.Equal(t, exitUnreachable, exitCode(err))
	require.ErrorContains(t, err, `no result of job "j" within 1ms: it may not have ended yet, or its result has been taken`)
}

func TestJobsInterrupted(t *testing.T) {
	b, redis := withRedis(t)
	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "jobs", "push", "go", "--wait") }()
	require.Eventually(t, func() bool { return strings.Contains(b.screen.String(), "pushed") }, 5*time.Second, time.Millisecond)
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-done)
	require.Len(t, pushedJobs(t, redis, "agent:jobs"), 1)

	in, _ := net.Pipe() // never sends anything
	go func() { done <- b.run(in, "jobs", "push", "-") }()
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-done)
	require.Len(t, pushedJobs(t, redis, "agent:jobs"), 1)
}

func TestJobsUsage(t *testing.T) {
	b, redis := withRedis(t)
	away := "redis://:hunter2@127.0.0.1:1"
	file := writeFile(t, `{"version":"1.0","prompt":"go","context":{"session_id":7}}`, t.TempDir(), "message.json")
	_, err := redis.Push("agent:results:bad", `{"version":"9.0"}`)
	require.NoError(t, err)
	require.NoError(t, redis.Set("agent:results:odd", "x"))
	require.NoError(t, redis.Set("agent:jobs:attempt:over:0", "completed"))
	require.NoError(t, redis.Set("agent:jobs:attempt:over:2", "failed"))
	cases := map[string]struct {
		args string
		want int
		text string
	}{
		"no prompt":        {"jobs push", exitUsage, "give a prompt, - or --file"},
		"empty input":      {"jobs push -", exitUsage, "prompt: is empty"},
		"both":             {"jobs push x --file " + file, exitUsage, "not both"},
		"no file":          {"jobs push --file nothing.json", exitUsage, "nothing.json"},
		"bad message":      {"jobs push --file " + file, exitUsage, "context.session_id"},
		"session":          {"jobs push x --session a/b", exitUsage, "context.session_id"},
		"job id":           {"jobs push x --job-id " + strings.Repeat("x", 300), exitUsage, "job_id"},
		"timeout":          {"jobs push x --timeout 0s", exitUsage, "whole seconds"},
		"half a second":    {"jobs push x --timeout 1500ms", exitUsage, "whole seconds"},
		"retry":            {"jobs push x --retry -1", exitUsage, "retry_count"},
		"redis":            {"jobs push x --redis http://x", exitUsage, "--redis"},
		"unreachable":      {"jobs push x --redis " + away, exitUnreachable, "Redis"},
		"not in time":      {"jobs wait nothing --timeout 50ms", exitUnreachable, `no result of job "nothing" within 50ms: it may not have ended yet, or its result has been taken; starter results get nothing shows it then`},
		"unreachable wait": {"jobs wait nothing --timeout 50ms --redis " + away, exitUnreachable, "within 50ms"},
		"timeout of wait":  {"jobs wait x --timeout -1s", exitUsage, "--timeout is -1s"},
		"bad result":       {"jobs wait bad", exitUsage, "version"},
		"no list":          {"jobs wait odd", exitUsage, "WRONGTYPE"},
		"no job":           {"jobs wait", exitUsage, "accepts 1 arg"},
		"ended":            {"jobs push x --job-id over", exitUsage, `job "over" has ended already: its attempt 0 is completed; see it with: starter results get over; push it again with --retry 1`},
		"ended, retried":   {"jobs push x --job-id over --retry 2 --wait", exitUsage, "its attempt 2 is failed; see it with: starter results get over; push it again with --retry 3"},
	}
	for name, c := range cases {
		require.Contains(t, b.show(c.want, strings.Fields(c.args)...), c.text, name)
		require.NotContains(t, b.screen.String(), "hunter2", name)
	}
	require.False(t, redis.Exists("agent:jobs"), "nothing was pushed")
	require.Contains(t, b.show(exitUsage, "jobs", "wait", ""), "the job id is empty")
	b.redis = ""
	require.Contains(t, b.show(exitUsage, "jobs", "push", "x"), "TURNSTONE_JOBS_REDIS_URL")
	b.redis = away
	b.show(0, "jobs", "push", "--help")
	require.NotContains(t, b.screen.String(), "hunter2", "help shows no secret")
}
