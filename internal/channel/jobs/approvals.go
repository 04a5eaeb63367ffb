package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// awaitingApproval is the reason in the status event of a turn that waits for approvals.
const awaitingApproval = "awaiting_approval"

// maxApprovals is how many approvals a result names.
const maxApprovals = 128

// luaPublishWaiting sends the producer a message while the job goes on, once for each attempt. It returns one of the outcomes of queue.go.
// KEYS: processing, waiting, results. ARGV: entry, ms to keep the key waiting, message, ms to keep it or 0.
const luaPublishWaiting = luaFunctions + `
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 'gone' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'duplicate' end
if not isList(KEYS[3]) then return 'occupied' end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
return 'published'`

// approvalRequests collects the approvals that the turn of a job has asked for.
type approvalRequests struct {
	message *message
	asked   []job.Approval
}

// add adds an approval, unless it was added before. After a restart, the same events are read again.
func (r *approvalRequests) add(a *agent.Approval, id agent.TurnID, policy agent.ApprovalPolicy) {
	if a == nil || len(r.asked) == maxApprovals {
		return
	}
	if slices.ContainsFunc(r.asked, func(other job.Approval) bool { return other.ApprovalID == a.ApprovalID }) {
		return
	}
	request := job.Approval{ApprovalID: a.ApprovalID, Tool: a.ToolName}
	isRemembered := a.TurnID == id && a.Remember != agent.RememberOff
	if policy.Waits() || isRemembered { // otherwise a decision has no effect on a later attempt
		request.Command = a.DecideCommand()
	}
	r.asked = append(r.asked, request)
}

// publishWaiting tells the producer, once for each attempt, that the job waits for a person and that another message follows.
func (s *server) publishWaiting(ctx context.Context, r *approvalRequests) error {
	if !s.cfg.Approvals.Waits() || len(r.asked) == 0 {
		return nil
	}
	j := &r.message.job
	result := job.Waiting(j.JobID, r.asked, time.Now())
	raw, err := result.Encode()
	if err != nil {
		return err
	}
	return s.retry(ctx, "publish that a job waits", j.JobID, func() error { return s.queue.publishWaiting(ctx, r.message.raw, j, raw) })
}

// publishWaiting sends the producer the message that its job waits, unless the attempt has had one or the bridge no longer holds the entry.
func (q *queue) publishWaiting(ctx context.Context, raw string, j *job.Job, message []byte) error {
	waiting := fmt.Sprintf("%s:waiting:%s:%d", q.name, j.JobID, j.RetryCount)
	keys := []string{q.processing(q.bridge), waiting, q.result(j.JobID)}
	_, err := q.redis.Run(ctx, luaPublishWaiting, keys, raw, markTTL.Milliseconds(), message, q.resultTTLMillis())
	if err != nil {
		return fmt.Errorf("publish to Redis that a job waits: %w", err)
	}
	return nil
}
