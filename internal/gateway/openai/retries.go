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

// Clients retry a request without an answer, and most of them do not say so. A retry must join the turn of the first attempt, but an identical request,
// such as for another sample, must be a new turn. It is a retry if the earlier request was not answered. So every request without an Idempotency-Key
// gets a derived key, and the keys of requests without an answer are kept for the next identical request.
const (
	// retryWindow is how long after an attempt without an answer an identical request counts as its retry. Clients retry within a minute.
	retryWindow = 2 * time.Minute
	// slotLength is how long all gateways give the first of identical requests the same key, so that a retry finds its turn at another gateway or
	// after a restart.
	slotLength = 15 * time.Minute
	// maxUnanswered is how many keys are kept for one fingerprint, and maxFingerprints how many fingerprints are kept.
	maxUnanswered   = 100
	maxFingerprints = 10_000
)

// headerAttempt is the header in which the official clients count the retries of a request.
const headerAttempt = "X-Stainless-Retry-Count"

// fingerprint is a hash of a request: its caller, session, action on disconnect and body.
type fingerprint [sha256.Size]byte

func fingerprintOf(v *gateway.Call, r *http.Request, body []byte) fingerprint {
	h := sha256.New()
	p := v.Principal()
	fmt.Fprintf(h, "%q %q %q %q %q %q\n", v.Tenant(), p.Method, p.Credential, p.Subject, r.Header.Get(headerSession), r.Header.Get(headerDisconnect))
	h.Write(body)
	return fingerprint(h.Sum(nil))
}

// slotKey returns the key that all gateways give to the first of identical requests in the slot of now.
func (f fingerprint) slotKey(now time.Time) string {
	return "openai/" + hex.EncodeToString(f[:]) + "/" + strconv.FormatInt(now.Unix()/int64(slotLength/time.Second), 10)
}

// outcome is how the handling of a request ended.
type outcome int

const (
	unanswered outcome = iota // the client has no answer, and the turn may go on
	answered
	withdrawn // the client disconnected, and its turn was cancelled
)

// attempts keeps the recent requests of this gateway. The zero value is ready to use.
type attempts struct {
	mu            sync.Mutex
	byFingerprint map[fingerprint]*identicalRequests
	purgedAt      time.Time
}

// identicalRequests keeps the recent requests with one fingerprint.
type identicalRequests struct {
	inProgress int
	latestKey  string    // of the newest request; "" if it was withdrawn
	unanswered []string  // keys of requests without an answer, the oldest first
	keptUntil  time.Time // when this can be dropped, if none is in progress
}

// claim returns the key for a request. isFirst is true if this gateway keeps no identical request; then all gateways would return the same key.
// isRetry is true if the client says that the request is a retry. The caller must call finish for each claim.
func (a *attempts) claim(f fingerprint, isRetry bool, now time.Time) (key string, isFirst bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.purge(now)
	same := a.byFingerprint[f]
	switch {
	case same == nil || same.hasExpired(now):
		same = &identicalRequests{latestKey: f.slotKey(now)}
		a.byFingerprint[f], isFirst = same, true
	case len(same.unanswered) > 0 && now.Before(same.keptUntil):
		same.latestKey, same.unanswered = same.unanswered[0], same.unanswered[1:]
	case !isRetry || same.latestKey == "":
		same.latestKey = uuid.NewString()
	}
	same.inProgress++
	return same.latestKey, isFirst
}

// replace returns a new key for a claimed request whose first key has a turn that the request may not join.
func (a *attempts) replace(f fingerprint) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byFingerprint[f].latestKey = uuid.NewString()
	return a.byFingerprint[f].latestKey
}

// finish records how a claimed request ended.
func (a *attempts) finish(f fingerprint, key string, o outcome, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.byFingerprint[f]
	same.inProgress--
	same.keptUntil = now.Add(retryWindow)
	switch {
	case o == unanswered && len(same.unanswered) < maxUnanswered:
		same.unanswered = append(same.unanswered, key)
	case o == withdrawn && same.latestKey == key:
		same.latestKey = ""
	}
}

func (s *identicalRequests) hasExpired(now time.Time) bool {
	return s.inProgress == 0 && !now.Before(s.keptUntil)
}

// purge drops expired requests now and then. If too many remain, it also drops requests that are not in progress.
func (a *attempts) purge(now time.Time) {
	if a.byFingerprint == nil {
		a.byFingerprint = map[fingerprint]*identicalRequests{}
	}
	if now.Sub(a.purgedAt) < retryWindow && len(a.byFingerprint) < maxFingerprints {
		return
	}
	a.purgedAt = now
	maps.DeleteFunc(a.byFingerprint, func(_ fingerprint, s *identicalRequests) bool { return s.hasExpired(now) })
	for f, s := range a.byFingerprint {
		if len(a.byFingerprint) < maxFingerprints {
			break
		}
		if s.inProgress == 0 {
			delete(a.byFingerprint, f)
		}
	}
}

// submit submits the turn of a request, or joins the turn of an earlier attempt.
func (d *Door) submit(r *http.Request, v *gateway.Call, q *request, f fingerprint) (agent.Receipt, error) {
	turn := q.turn
	if turn.IdempotencyKey != "" { // the client's own
		return v.Submit(r.Context(), channel, &turn)
	}
	retries, _ := strconv.Atoi(r.Header.Get(headerAttempt)) // 0 if it is not a number
	var isFirst bool
	q.derivedKey, isFirst = d.attempts.claim(f, retries > 0, time.Now())
	turn.IdempotencyKey = q.derivedKey
	receipt, err := v.Submit(r.Context(), channel, &turn)
	if isKeyTaken(err) || (err == nil && isFirst && receipt.Joined && !d.canJoin(r, v, receipt)) {
		q.derivedKey = d.attempts.replace(f)
		turn = q.turn
		turn.IdempotencyKey = q.derivedKey
		receipt, err = v.Submit(r.Context(), channel, &turn)
	}
	return receipt, err
}

// isKeyTaken reports whether the derived key belongs to a turn that was deleted.
func isKeyTaken(err error) bool {
	return agent.CodeOf(err) == agent.CodeConflict && agent.FailureOf(err).Field == "idempotency_key"
}

// canJoin reports whether a turn of another gateway may belong to an earlier attempt: it goes on, or it ended within the retry window. If the turn
// cannot be read, canJoin returns true, because a second turn could repeat the effects of the first.
func (d *Door) canJoin(r *http.Request, v *gateway.Call, receipt agent.Receipt) bool {
	t, err := v.SubmittedTurn(r.Context(), receipt)
	if err != nil || t.Output == nil {
		return true
	}
	endedAt := t.StartedAt.Add(time.Duration(t.Output.ExecutionTimeMS) * time.Millisecond)
	return t.Output.Status != agent.TurnCancelled && time.Since(endedAt) < retryWindow
}
