package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

const (
	// verifyEvery is how often the credential of open streams is verified again. A key's record is cached for three seconds, so a
	// revocation ends a stream after four and a half.
	verifyEvery   = 1500 * time.Millisecond
	verifyTimeout = 5 * time.Second
	// maxUnverified is how long streams stay open while their credential cannot be verified.
	maxUnverified = 30 * time.Second
)

// errCredentialEnded is why a stream ends that outlives its caller's credential. The error for the client comes with it.
var errCredentialEnded = errors.New("the stream ends")

// errPermissionsChanged ends streams whose credential is still valid, but allows something else than when they began.
var errPermissionsChanged = access.Refused("the credential allows something else now: connect again")

// openCredentials are the credentials of the streams that are open. Each is verified again in a goroutine of its own, however many streams
// it has.
type openCredentials struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]*openCredential
}

// openCredential ends its context when the credential is no longer valid; the cause is then the error for the client.
type openCredential struct {
	context.Context // it is the credential's life

	end     context.CancelCauseFunc
	streams int
}

// untilRevoked derives a context that also ends when the credential of the caller is no longer valid.
func (g *Gateway) untilRevoked(ctx context.Context) (context.Context, context.CancelFunc) {
	caller, err := callerOf(ctx)
	if err != nil || caller.credentials == nil {
		return ctx, func() {}
	}
	id := credentialID(caller.credentials)
	all := &g.credentials
	all.mu.Lock()
	defer all.mu.Unlock()
	open := all.byID[id]
	if open == nil {
		life, end := context.WithCancelCause(context.Background())
		open = &openCredential{Context: life, end: end}
		all.byID[id] = open
		go g.watchCredential(open, id, caller)
	}
	open.streams++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(open, func() { cancel(context.Cause(open)) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		all.mu.Lock()
		defer all.mu.Unlock()
		if open.streams--; open.streams == 0 {
			all.remove(id, open)
			open.end(nil)
		}
	})
}

// remove forgets a credential, so that the next stream begins anew; mu is locked.
func (c *openCredentials) remove(id [sha256.Size]byte, open *openCredential) {
	if c.byID[id] == open {
		delete(c.byID, id)
	}
}

// watchCredential verifies a credential until its last stream ends, and ends its streams when it is no longer valid.
func (g *Gateway) watchCredential(open *openCredential, id [sha256.Size]byte, caller identity) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	verified := time.Now()
	for {
		select {
		case <-open.Done():
			return
		case <-g.closing.Done():
			return // which ends the streams
		case <-tick.C:
		}
		err := g.verifyAgain(open, caller)
		switch {
		case err == nil:
			verified = time.Now()
			continue
		case open.Err() != nil:
			return
		case agent.CodeOf(err) == agent.CodeUnauthenticated:
			caller.auditInvalidCredential(err)
		case time.Since(verified) < maxUnverified:
			continue
		default:
			err = &agent.Error{Code: agent.CodeUnavailable, RetryAfter: time.Second, Err: errors.New("the credential cannot be verified now: connect again")}
		}
		g.credentials.mu.Lock()
		g.credentials.remove(id, open)
		g.credentials.mu.Unlock()
		open.end(fmt.Errorf("%w: %w", errCredentialEnded, err))
		return
	}
}

func (g *Gateway) verifyAgain(ctx context.Context, caller identity) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	p, err := g.cfg.Auth.Authenticate(ctx, *caller.credentials)
	if err == nil && !reflect.DeepEqual(p, caller.principal) {
		err = errPermissionsChanged
	}
	return err
}

// credentialID returns a hash of all that a caller sent to identify itself.
func credentialID(c *access.Credentials) [sha256.Size]byte {
	h := sha256.New()
	for _, text := range []string{c.Bearer, c.Key} { // neither has a line break
		h.Write([]byte(text + "\n"))
	}
	for _, leaf := range c.Certificates {
		h.Write(leaf.Raw)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
