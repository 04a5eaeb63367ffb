package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Clients repeat a request whose answer they did not get, most of them without saying so. A repetition must join the turn of the first attempt;
// an identical request that is meant, such as one of several samples, must be a turn of its own. The difference is whether the earlier
// request was answered. So every request without an Idempotency-Key gets a key here, and the keys whose answer did not arrive are kept
// for the next identical request.
const (
	// retryWindow is how long after an attempt that failed the same request is taken for its repetition. Clients repeat within a minute.
	retryWindow = 2 * time.Minute
	// slotLength is how long the first of identical requests has the same key in every gateway, so that a repetition finds its turn in another
	// one, or after a restart.
	slotLength = 15 * time.Minute
	// maxIdentical bounds the unanswered keys of one request, maxRequests the requests that are remembered.
	maxIdentical = 100
	maxRequests  = 10_000
)

// headerAttempt counts the repetitions of a request, in the official clients.
const headerAttempt = "X-Stainless-Retry-Count"

// fingerprint is equal for requests that are identical: of the same caller, with the same headers that matter and the same body.
type fingerprint [sha256.Size]byte

func fingerprintOf(v *gateway.Call, r *http.Request, body []byte) fingerprint {
	h := sha256.New()
	p := v.Principal()
	fmt.Fprintf(h, "%q %q %q %q %q %q\n", v.Tenant(), p.Method, p.Credential, p.Subject, r.Header.Get(headerSession), r.Header.Get(headerDisconnect))
	h.Write(body)
	return fingerprint(h.Sum(nil))
}

// slotKey is the key that any gateway gives to the first of identical requests in the slot of now.
func (f fingerprint) slotKey(now time.Time) string {
	return "openai/" + hex.EncodeToString(f[:]) + "/" + strconv.FormatInt(now.Unix()/int64(slotLength/time.Second), 10)
}

// outcome is how the answer to a request ended.
type outcome int

const (
	unanswered outcome = iota // the client has no answer, and its turn may go on
	answered
	withdrawn // the client left and had its turn cancelled
)

// attempts are the identical requests of late that came to this gateway. The zero value is ready to use.
type attempts struct {
	mu     sync.Mutex
	known  map[fingerprint]*identicalRequests
	purged time.Time
}

// identicalRequests records the recent requests with one fingerprint.
type identicalRequests struct {
	open       int      // requests that are not answered yet
	latest     string   // the key of the newest
	unanswered []string // keys of attempts that failed, the oldest first
	until      time.Time
}

// claim returns the key for a request. first is true if no identical one is known here: the key is then that of any gateway. repeated is
// whether the client says that it repeats. Every claim is settled once.
func (a *attempts) claim(f fingerprint, repeated bool, now time.Time) (key string, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.purge(now)
	same := a.known[f]
	switch {
	case same == nil || same.expired(now):
		same = &identicalRequests{latest: f.slotKey(now)}
		a.known[f], first = same, true
	case len(same.unanswered) > 0 && now.Before(same.until):
		same.latest, same.unanswered = same.unanswered[0], same.unanswered[1:]
	case !repeated || same.latest == "":
		same.latest = uuid.NewString()
	}
	same.open++
	return same.latest, first
}

// replace gives a request that was claimed another key: the turn of its own is none to join.
func (a *attempts) replace(f fingerprint) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[f].latest = uuid.NewString()
	return a.known[f].latest
}

// finish records how a request ended.
func (a *attempts) finish(f fingerprint, key string, o outcome, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.known[f]
	same.open--
	same.until = now.Add(retryWindow)
	switch {
	case o == unanswered && len(same.unanswered) < maxIdentical:
		same.unanswered = append(same.unanswered, key)
	case o == withdrawn && same.latest == key:
		same.latest = ""
	}
}

func (s *identicalRequests) expired(now time.Time) bool { return s.open == 0 && !now.Before(s.until) }

// purge forgets what has expired, once in a while, and any that are not open where there are too many.
func (a *attempts) purge(now time.Time) {
	if a.known == nil {
		a.known = map[fingerprint]*identicalRequests{}
	}
	if now.Sub(a.purged) < retryWindow && len(a.known) < maxRequests {
		return
	}
	a.purged = now
	maps.DeleteFunc(a.known, func(_ fingerprint, s *identicalRequests) bool { return s.expired(now) })
	for f, s := range a.known {
		if len(a.known) < maxRequests {
			break
		}
		if s.open == 0 {
			delete(a.known, f)
		}
	}
}

// submit starts the turn of a request, or joins that of an earlier attempt.
func (d *Door) submit(r *http.Request, v *gateway.Call, q *request, f fingerprint) (agent.Receipt, error) {
	if q.turn.IdempotencyKey != "" { // the client's own
		return v.Submit(r.Context(), channel, &q.turn)
	}
	again, _ := strconv.Atoi(r.Header.Get(headerAttempt)) // 0 if it is not a number
	key, first := d.attempts.claim(f, again > 0, time.Now())
	q.derivedKey = key
	turn := q.turn
	turn.IdempotencyKey = key
	receipt, err := v.Submit(r.Context(), channel, &turn)
	if keyIsTaken(err) || (err == nil && first && receipt.Joined && !d.canJoin(r, v, receipt)) {
		q.derivedKey = d.attempts.replace(f)
		turn = q.turn
		turn.IdempotencyKey = q.derivedKey
		receipt, err = v.Submit(r.Context(), channel, &turn)
	}
	return receipt, err
}

// keyIsTaken reports whether the key that was derived belongs to a turn that is not kept any more.
func keyIsTaken(err error) bool {
	return agent.CodeOf(err) == agent.CodeConflict && agent.FailureOf(err).Field == "idempotency_key"
}

// canJoin reports whether a turn that another gateway began may be of an earlier attempt: it goes on, or has ended a moment ago. If the turn
// cannot be read, the request joins it: it may have effects that must not happen twice.
func (d *Door) canJoin(r *http.Request, v *gateway.Call, receipt agent.Receipt) bool {
	t, err := v.SubmittedTurn(r.Context(), receipt)
	if err != nil || t.Output == nil {
		return true
	}
	ended := t.StartedAt.Add(time.Duration(t.Output.ExecutionTimeMS) * time.Millisecond)
	return t.Output.Status != agent.TurnCancelled && time.Since(ended) < retryWindow
}
