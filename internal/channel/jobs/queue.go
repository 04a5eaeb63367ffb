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
	popTimeout         = time.Second    // how long Redis waits for a message
	markTTL            = 24 * time.Hour // how long the mark of an attempt is kept
	deadBridgeTTL      = 24 * time.Hour // how long a dead bridge without jobs stays in the list of bridges
	maxDeadLetters     = 10_000
	maxDeadLetterBytes = 16 << 10 // of the message in a dead letter
	giveBackChunk      = 100      // jobs that one script moves
)

// Marks of attempts. A failed attempt has the mark "failed".
const (
	markCompleted = "completed"
	markRunning   = "running"
)

// Outcomes of scripts that publish something.
const (
	outcomePublished = "published"
	outcomeGone      = "gone"      // the bridge no longer holds the entry
	outcomeDuplicate = "duplicate" // the attempt has its result already
	outcomeOccupied  = "occupied"  // the key to publish to is not a list
)

// queue is a bridge's view of the keys in Redis. Its methods never return [redis.ErrNil].
type queue struct {
	redis     *redis.Client
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

// renewLease renews the bridge's lease.
func (q *queue) renewLease(ctx context.Context) error {
	if _, err := q.redis.Run(ctx, luaRenew, []string{q.alive(q.bridge), q.bridges()}, q.bridge, q.lease.Milliseconds()); err != nil {
		return fmt.Errorf("renew lease in Redis: %w", err)
	}
	return nil
}

// take waits up to a second for a message and moves it to the processing list. ok is false if there was none.
func (q *queue) take(ctx context.Context) (raw string, ok bool, err error) {
	raw, err = redis.String(q.redis.Wait(ctx, popTimeout, "BLMOVE", q.name, q.processing(q.bridge), "LEFT", "RIGHT", popTimeout.Seconds()))
	if errors.Is(err, redis.ErrNil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("take job from Redis: %w", err)
	}
	return raw, true, nil
}

// push puts a message at the end of the queue. If the attempt has ended, it pushes nothing and returns the attempt's mark.
func (q *queue) push(ctx context.Context, j *job.Job, raw []byte) (mark string, err error) {
	return redis.String(q.redis.Run(ctx, luaPush, []string{q.name, q.attempt(j.JobID, j.RetryCount)}, raw))
}

// held lists the messages in the bridge's processing list.
func (q *queue) held(ctx context.Context) ([]string, error) {
	list, err := redis.Strings(q.redis.Do(ctx, "LRANGE", q.processing(q.bridge), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("list jobs in Redis: %w", err)
	}
	return list, nil
}

// adopt gives the jobs of dead bridges back to the queue and returns how many.
func (q *queue) adopt(ctx context.Context) (int, error) {
	dead, err := redis.Strings(q.redis.Run(ctx, luaFindDead, []string{q.bridges()}, q.alive(""), q.processing(""), int(deadBridgeTTL.Seconds())))
	if err != nil {
		return 0, fmt.Errorf("look for dead bridges in Redis: %w", err)
	}
	total := 0
	for _, bridge := range dead {
		if bridge == q.bridge { // this bridge's own lease has expired
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

// giveBack moves all messages of a bridge to the head of the queue, in their order, and returns how many. The bridge is this one or a dead one.
func (q *queue) giveBack(ctx context.Context, bridge string) (int, error) {
	isSelf := "0"
	if bridge == q.bridge {
		isSelf = "1"
	}
	keys := []string{q.name, q.processing(bridge), q.alive(bridge), q.bridges()}
	for total := 0; ; {
		n, err := redis.Int(q.redis.Run(ctx, luaGiveBack, keys, bridge, isSelf, giveBackChunk))
		if err != nil {
			return total, fmt.Errorf("give jobs back to Redis: %w", err)
		}
		total += max(n, 0)
		if n < giveBackChunk {
			return total, nil
		}
	}
}

// begin marks the message's attempt as running unless it has ended, and sets m's fields about this attempt and earlier ones. isAnswered is true if
// the attempt has ended and its result still waits for the producer. Then the entry was dropped.
func (q *queue) begin(ctx context.Context, m *message) (isAnswered bool, err error) {
	j := &m.job
	keys := []string{q.processing(q.bridge), q.attempt(j.JobID, j.RetryCount), q.result(j.JobID)}
	for n := j.RetryCount - 1; n >= 0; n-- {
		keys = append(keys, q.attempt(j.JobID, n))
	}
	marks, err := redis.Strings(q.redis.Run(ctx, luaBegin, keys, m.raw, markTTL.Milliseconds()))
	if err != nil {
		return false, fmt.Errorf("begin job in Redis: %w", err)
	}
	if len(marks) == 0 {
		return true, nil
	}
	m.hadEnded = marks[0] != markRunning
	m.previousUnmarked = len(marks) > 1 && marks[1] == ""
	m.earlier = nil
	for i, mark := range marks[1:] {
		if mark == markCompleted || mark == markRunning {
			m.earlier = append(m.earlier, j.RetryCount-1-i)
		}
	}
	return false, nil
}

// publish publishes the result of a message's attempt, and returns the outcome.
func (q *queue) publish(ctx context.Context, m *message, status job.Status, result []byte) (string, error) {
	hadEnded := "0"
	if m.hadEnded {
		hadEnded = "1"
	}
	keys := []string{q.processing(q.bridge), q.attempt(m.job.JobID, m.job.RetryCount), q.result(m.job.JobID)}
	outcome, err := redis.String(q.redis.Run(ctx, luaPublish, keys, m.raw, string(status), markTTL.Milliseconds(), result, q.resultTTLMillis(), hadEnded))
	if err != nil {
		return "", fmt.Errorf("publish result to Redis: %w", err)
	}
	return outcome, nil
}

// resultTTLMillis returns how long results are kept. 0 means without end.
func (q *queue) resultTTLMillis() int64 { return max(q.resultTTL, 0).Milliseconds() }

// deadLetter is a message that is not a job, with the reason.
type deadLetter struct {
	Reason    string    `json:"reason"`
	Field     string    `json:"field,omitempty"`
	Message   string    `json:"message"`
	Truncated bool      `json:"truncated,omitempty"`
	JobID     string    `json:"job_id,omitempty"`
	Bridge    string    `json:"bridge"`
	At        time.Time `json:"at"`
}

// addDeadLetter moves a message to the dead letters, sends the result to its producer unless it is nil, and returns the outcome.
func (q *queue) addDeadLetter(ctx context.Context, raw string, l deadLetter, r *job.Result) (string, error) {
	l.Bridge = q.bridge
	l.Message = raw
	if len(raw) > maxDeadLetterBytes {
		l.Message, l.Truncated = strings.ToValidUTF8(raw[:maxDeadLetterBytes], "\ufffd"), true
	}
	letter, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("write dead letter: %w", err)
	}
	keys := []string{q.processing(q.bridge), q.dead(), q.dead()} // the last one is not used without a result
	var result []byte
	if r != nil {
		if result, err = r.Encode(); err != nil {
			return "", err
		}
		keys[2] = q.result(r.JobID)
	}
	outcome, err := redis.String(q.redis.Run(ctx, luaAddDeadLetter, keys, raw, letter, maxDeadLetters, result, q.resultTTLMillis()))
	if err != nil {
		return "", fmt.Errorf("write dead letter to Redis: %w", err)
	}
	return outcome, nil
}
