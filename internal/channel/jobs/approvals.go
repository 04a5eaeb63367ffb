package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// awaitingApproval is the reason of a turn that waits for a person.
const awaitingApproval = "awaiting_approval"

// luaAnnounce sends the producer a message while the job goes on, once for each attempt. It returns published; gone, when the bridge no longer has
// the entry; duplicate, when the attempt has had such a message; occupied, when the key of the results holds no list.
// KEYS: processing, announced, results. ARGV: entry, ms to remember the attempt, message, ms to keep it or 0.
const luaAnnounce = luaMark + `
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 'gone' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'duplicate' end
if not room(KEYS[3]) then return 'occupied' end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
return 'published'`

// approvalRequests are the approvals that the turn of a job has asked for.
type approvalRequests struct {
	message *message
	asked   []job.Approval
}

// add adds an approval once: after a restart the same events come again.
func (r *approvalRequests) add(a *agent.Approval, id agent.TurnID, policy agent.ApprovalPolicy) {
	if a == nil || len(r.asked) == maxApprovals {
		return
	}
	if slices.ContainsFunc(r.asked, func(other job.Approval) bool { return other.ApprovalID == a.ApprovalID }) {
		return
	}
	request := job.Approval{ApprovalID: a.ApprovalID, Tool: a.ToolName}
	if policy.Waits() || a.TurnID == id && a.Remember != agent.RememberOff { // otherwise a decision would not reach a later attempt
		request.Command = a.DecideCommand()
	}
	r.asked = append(r.asked, request)
}

// maxApprovals bounds the approvals that a result names.
const maxApprovals = 128

// publishWaiting publishes, once for each attempt, that the job waits for a person and that another message follows.
func (s *session) publishWaiting(ctx context.Context, r *approvalRequests) error {
	if !s.cfg.Approvals.Waits() || len(r.asked) == 0 {
		return nil
	}
	j := &r.message.job
	result := job.Waiting(j.JobID, r.asked, time.Now())
	raw, err := result.Encode()
	if err != nil {
		return err
	}
	return s.retry(ctx, "publish that a job waits", j, func() error {
		_, err := s.queue.publishWaiting(ctx, r.message.raw, j, raw)
		return err
	})
}

// publishWaiting tells the producer that its job waits, and returns the outcome: published, gone, duplicate or occupied.
func (q *queue) publishWaiting(ctx context.Context, raw string, j *job.Job, message []byte) (string, error) {
	announced := fmt.Sprintf("%s:waiting:%s:%d", q.name, j.JobID, j.RetryCount)
	keys := []string{q.processing(q.bridge), announced, q.result(j.JobID)}
	outcome, err := redis.String(q.client.Run(ctx, luaAnnounce, keys, raw, markTTL.Milliseconds(), message, q.resultTTLMillis()))
	if err != nil {
		return "", fmt.Errorf("publish to Redis that a job waits: %w", err)
	}
	return outcome, nil
}
