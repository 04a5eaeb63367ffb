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
	// verifyEvery is how often the credential of open streams is verified again. As a key's record is cached for three seconds, streams end at
	// most four and a half seconds after a revocation.
	verifyEvery   = 1500 * time.Millisecond
	verifyTimeout = 5 * time.Second
	// maxUnverified is how long streams stay open while their credential cannot be verified.
	maxUnverified = 30 * time.Second
)

// errCredentialEnded is in the cause of a stream's end when the credential of its caller is no longer valid.
var errCredentialEnded = errors.New("the stream ends")

// errPermissionsChanged is the cause of a stream's end when its credential is valid but has other permissions than before.
var errPermissionsChanged = access.Refused("the credential allows something else now: connect again")

// openCredentials are the credentials of the open streams. One goroutine verifies each credential again and again, for all of its streams.
type openCredentials struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]*openCredential
}

// openCredential is a context that ends when the credential is no longer valid. Its cause is then the error for the client.
type openCredential struct {
	context.Context

	end     context.CancelCauseFunc
	streams int
}

// untilRevoked returns a context that ends also when the credential of the caller is no longer valid.
func (g *Gateway) untilRevoked(ctx context.Context) (context.Context, context.CancelFunc) {
	caller := callerOf(ctx)
	if caller.credentials == nil {
		return ctx, func() {}
	}
	id := credentialID(caller.credentials)
	all := &g.credentials
	all.mu.Lock()
	defer all.mu.Unlock()
	open := all.byID[id]
	if open == nil {
		valid, end := context.WithCancelCause(context.Background())
		open = &openCredential{Context: valid, end: end}
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

// remove removes a credential; mu is locked.
func (c *openCredentials) remove(id [sha256.Size]byte, open *openCredential) {
	if c.byID[id] == open {
		delete(c.byID, id)
	}
}

// watchCredential verifies a credential again and again until its last stream ends. When the credential is no longer valid it ends the streams.
func (g *Gateway) watchCredential(open *openCredential, id [sha256.Size]byte, caller identity) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	verified := time.Now()
	for {
		select {
		case <-open.Done():
			return
		case <-g.closing.Done():
			return // the streams end too
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

// credentialID returns a hash of the credentials that a caller has sent.
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
