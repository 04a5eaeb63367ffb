package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

const (
	popTimeout  = time.Second    // of a pop
	markTTL     = 24 * time.Hour // of the mark of an attempt
	forgetAfter = 24 * time.Hour // after which a bridge that holds nothing is forgotten
	maxDead     = 10_000
	deadBytes   = 16 << 10 // of a message among the dead
	giveChunk   = 100      // jobs that one script moves
	markDone    = "completed"
	markRuns    = "running"
	published   = "published"
	gone        = "gone"
	duplicate   = "duplicate"
	occupied    = "occupied"
	buried      = "buried"
)

// queue is the queue of one bridge in Redis. Its errors are errors of Redis, but never [redis.ErrNil].
type queue struct {
	client    *redis.Client
	bridge    string
	name      string
	results   string
	resultTTL time.Duration
	lease     time.Duration
}

func (q *queue) processing(bridge string) string { return q.name + ":processing:" + bridge }
func (q *queue) alive(bridge string) string      { return q.name + ":alive:" + bridge }
func (q *queue) bridges() string                 { return q.name + ":bridges" }
func (q *queue) dead() string                    { return q.name + ":dead" }
func (q *queue) result(jobID string) string      { return q.results + ":" + jobID }

func (q *queue) attempt(jobID string, retry int) string {
	return q.name + ":attempt:" + jobID + ":" + strconv.Itoa(retry)
}

// renewLease renews the lease.
func (q *queue) renewLease(ctx context.Context) error {
	if _, err := q.client.Run(ctx, luaBeat, []string{q.alive(q.bridge), q.bridges()}, q.bridge, q.lease.Milliseconds()); err != nil {
		return fmt.Errorf("renew lease in Redis: %w", err)
	}
	return nil
}

// take waits up to a second for a job; ok is false if there was none.
func (q *queue) take(ctx context.Context) (raw string, ok bool, err error) {
	raw, err = redis.String(q.client.Wait(ctx, popTimeout, "BLMOVE", q.name, q.processing(q.bridge), "LEFT", "RIGHT", popTimeout.Seconds()))
	if errors.Is(err, redis.ErrNil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("take job from Redis: %w", err)
	}
	return raw, true, nil
}

// push puts a message at the end of the queue. If its attempt has ended already, it returns the mark instead.
func (q *queue) push(ctx context.Context, j *job.Job, raw []byte) (mark string, err error) {
	return redis.String(q.client.Run(ctx, luaPush, []string{q.name, q.attempt(j.JobID, j.RetryCount)}, raw))
}

// held lists the messages that the bridge has taken.
func (q *queue) held(ctx context.Context) ([]string, error) {
	list, err := redis.Strings(q.client.Do(ctx, "LRANGE", q.processing(q.bridge), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("list jobs in Redis: %w", err)
	}
	return list, nil
}

// adopt gives the jobs of dead bridges back to the queue and returns how many.
func (q *queue) adopt(ctx context.Context) (int, error) {
	list, err := redis.Strings(q.client.Run(ctx, luaDead, []string{q.bridges()}, q.alive(""), q.processing(""), int(forgetAfter.Seconds())))
	if err != nil {
		return 0, fmt.Errorf("look for dead bridges in Redis: %w", err)
	}
	total := 0
	for _, bridge := range list {
		if bridge == q.bridge { // its lease ran out although it lives
			continue
		}
		n, err := q.giveBack(ctx, bridge)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// giveBack moves all messages of a bridge to the head of the queue, in their order, and returns how many. Another bridge must be dead.
func (q *queue) giveBack(ctx context.Context, bridge string) (int, error) {
	isSelf := "0"
	if bridge == q.bridge {
		isSelf = "1"
	}
	keys := []string{q.name, q.processing(bridge), q.alive(bridge), q.bridges()}
	for total := 0; ; {
		n, err := redis.Int(q.client.Run(ctx, luaGiveBack, keys, bridge, isSelf, giveChunk))
		if err != nil {
			return total, fmt.Errorf("give jobs back to Redis: %w", err)
		}
		total += max(n, 0)
		if n < giveChunk {
			return total, nil
		}
	}
}

// begin marks the message's attempt as running, unless it has ended, and fills in what Redis knows of it and of the attempts before it. over
// means that it has ended, its result was not taken yet, and the entry was dropped.
func (q *queue) begin(ctx context.Context, m *message) (over bool, err error) {
	j := &m.job
	keys := []string{q.processing(q.bridge), q.attempt(j.JobID, j.RetryCount), q.result(j.JobID)}
	for n := j.RetryCount - 1; n >= 0; n-- {
		keys = append(keys, q.attempt(j.JobID, n))
	}
	marks, err := redis.Strings(q.client.Run(ctx, luaBegin, keys, m.raw, markTTL.Milliseconds()))
	if err != nil {
		return false, fmt.Errorf("begin job in Redis: %w", err)
	}
	if len(marks) == 0 {
		return true, nil
	}
	m.earlier, m.hadEnded, m.unsure = nil, marks[0] != markRuns, len(marks) > 1 && marks[1] == ""
	for i, mark := range marks[1:] {
		if mark == markDone || mark == markRuns {
			m.earlier = append(m.earlier, j.RetryCount-1-i)
		}
	}
	return false, nil
}

// publish ends an attempt and returns the outcome: published, gone, duplicate or occupied.
func (q *queue) publish(ctx context.Context, m *message, status job.Status, result []byte) (string, error) {
	hadEnded := "0"
	if m.hadEnded {
		hadEnded = "1"
	}
	keys := []string{q.processing(q.bridge), q.attempt(m.job.JobID, m.job.RetryCount), q.result(m.job.JobID)}
	outcome, err := redis.String(q.client.Run(ctx, luaPublish, keys, m.raw, string(status), markTTL.Milliseconds(), result, q.resultTTLMillis(), hadEnded))
	if err != nil {
		return "", fmt.Errorf("publish result to Redis: %w", err)
	}
	return outcome, nil
}

// resultTTLMillis returns how long results are kept; 0 for ever.
func (q *queue) resultTTLMillis() int64 { return max(q.resultTTL, 0).Milliseconds() }

// deadLetter is a message among the dead.
type deadLetter struct {
	Reason    string    `json:"reason"`
	Field     string    `json:"field,omitempty"`
	Message   string    `json:"message"`
	Truncated bool      `json:"truncated,omitempty"`
	JobID     string    `json:"job_id,omitempty"`
	Bridge    string    `json:"bridge"`
	At        time.Time `json:"at"`
}

// addDeadLetter moves a message to the dead letters, sends the result, if any, to its producer, and returns the outcome: buried, gone or occupied.
func (q *queue) addDeadLetter(ctx context.Context, raw string, l deadLetter, r *job.Result) (string, error) {
	l.Bridge = q.bridge
	l.Message = raw
	if len(raw) > deadBytes {
		l.Message, l.Truncated = strings.ToValidUTF8(raw[:deadBytes], "\ufffd"), true
	}
	body, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("write dead letter: %w", err)
	}
	message, to := []byte(nil), q.dead()
	if r != nil {
		if message, err = r.Encode(); err != nil {
			return "", err
		}
		to = q.result(r.JobID)
	}
	outcome, err := redis.String(q.client.Run(ctx, luaBury, []string{q.processing(q.bridge), q.dead(), to}, raw, body, maxDead, message, q.resultTTLMillis()))
	if err != nil {
		return "", fmt.Errorf("write dead letter to Redis: %w", err)
	}
	return outcome, nil
}
