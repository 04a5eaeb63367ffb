package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

// awaitingApproval is why a turn waits that waits for a person.
const awaitingApproval = "awaiting_approval"

// luaTell sends the producer a message while the job goes on, once for each attempt. It returns published; gone, when the entry is not the
// bridge's any more; duplicate, when the attempt has had such a message; occupied, when something else than a list is where it belongs.
// KEYS: processing, told, results. ARGV: entry, ms to remember, message, ms to keep it or 0.
const luaTell = luaMark + `
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 'gone' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'duplicate' end
if not room(KEYS[3]) then return 'occupied' end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
return 'published'`

// pauses are the approvals that a job's turn has asked for.
type pauses struct {
	message *message
	asked   []job.Approval
}

// add remembers an approval, once: after a restart the same events come again.
func (p *pauses) add(a *agent.Approval, of agent.TurnID, policy agent.ApprovalPolicy) {
	if a == nil || len(p.asked) == maxApprovals {
		return
	}
	known := job.Approval{ApprovalID: a.ApprovalID, Tool: a.ToolName}
	if policy.Waits() || a.TurnID == of && a.Remember != agent.RememberOff { // else a decision would reach no later attempt
		known.Command = a.DecideCommand()
	}
	for _, before := range p.asked {
		if before.ApprovalID == known.ApprovalID {
			return
		}
	}
	p.asked = append(p.asked, known)
}

// maxApprovals bounds the approvals that a result names.
const maxApprovals = 128

// publishWaiting publishes, once for each attempt, that the job waits for a person and that another message follows.
func (s *session) publishWaiting(ctx context.Context, p *pauses) error {
	if !s.cfg.Approvals.Waits() || len(p.asked) == 0 {
		return nil
	}
	j := &p.message.job
	failed := job.Waiting(j.JobID, p.asked, time.Now())
	raw, err := failed.Encode()
	if err != nil {
		return err
	}
	return s.insist(ctx, "publish that a job waits", j, func() error {
		_, err := s.queue.publishWaiting(ctx, p.message.raw, j, raw)
		return err
	})
}

// publishWaiting sends the message that a job waits to its producer, and returns what became of it: published, gone, duplicate or occupied.
func (q *queue) publishWaiting(ctx context.Context, raw string, j *job.Job, message []byte) (string, error) {
	told := fmt.Sprintf("%s:waiting:%s:%d", q.name, j.JobID, j.RetryCount)
	keys := []string{q.processing(q.bridge), told, q.result(j.JobID)}
	how, err := q.run(ctx, luaTell, keys, raw, remember.Milliseconds(), message, q.keep()).Text()
	if err != nil {
		return "", fmt.Errorf("publish to Redis that a job waits: %w", err)
	}
	return how, nil
}
