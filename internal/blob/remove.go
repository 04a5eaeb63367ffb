package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	opRemove = "remove blob"
	// gonePrefix has one object for each removal under way, for every process to see.
	gonePrefix = "~gone/"
	// defaultRemoval bounds a removal: whoever has seen its sign for twice as long knows that its process died.
	defaultRemoval = 10 * time.Second
	// lookAgain is how often a Put asks whether a removal is over.
	lookAgain = 20 * time.Millisecond
	// maxWrites bounds how often a Put begins anew because its content was removed meanwhile.
	maxWrites = 8
)

// Remove removes the content of a reference; content that is not there is no error. A Put of the same content, in whatever process, that
// begins while the content is being removed or later ends with the content there: a removal shows a sign before it deletes and until it
// has deleted, and a Put looks for the content once more after it has seen no sign.
//
// With a ledger only content goes that nobody refers to and nobody has just put; the rest is [agent.CodeConflict] and stays. Without one that
// is for the caller to know. [agent.CodeInvalid] for a malformed reference or tenant, and for compiled plans, which are never removed:
// running turns name them by their hash alone.
func (s *Store) Remove(ctx context.Context, tenant, ref string) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	digest, err := ParseRef(ref)
	if err != nil {
		return err
	}
	if tenant == plansFolder {
		return agent.Invalid("tenant", "compiled plans are not removed")
	}
	ctx, cancel := context.WithTimeout(ctx, s.removal)
	defer cancel()
	sign := gonePrefix + digest + "-" + rand.Text()
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer cancel()
		_ = s.bucket.Delete(tidy, sign) // Sweep removes what stays
	}()
	if err := s.bucket.WriteAll(ctx, sign, nil, nil); err != nil {
		return fail(ctx, opRemove, err)
	}
	if s.ledger != nil { // asked while the sign can be seen: whoever puts the content from now on waits for the removal
		switch released, err := s.ledger.Release(ctx, tenant, ref); {
		case err != nil:
			return fmt.Errorf("%s: %w", opRemove, err)
		case !released:
			return agent.Errorf(agent.CodeConflict, opRemove, "%s is in use", ref)
		}
	}
	if err := agent.Interrupted(ctx, opRemove); err != nil { // not every driver asks, and others may believe this removal dead by now
		return err
	}
	if err := s.bucket.Delete(ctx, objectKey(tenant, digest)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fail(ctx, opRemove, err)
	}
	return nil
}

// keep writes an object unless it is there, and returns once it is there to stay: the ledger, if any, knows of it before the first look, and
// it has been there after a moment without a removal.
// write may be called again.
func (s *Store) keep(ctx context.Context, tenant, digest string, size int64, write func(key string) error) error {
	key := objectKey(tenant, digest)
	if s.ledger != nil && tenant != plansFolder {
		if err := s.ledger.Putting(ctx, tenant, scheme+digest, size); err != nil {
			return fmt.Errorf("%s: %w", opPut, err)
		}
	}
	quiet := false // since the last write
	for range maxWrites {
		known, err := s.bucket.Exists(ctx, key)
		switch {
		case err != nil:
			return fail(ctx, opPut, err)
		case known && quiet:
			return nil
		case !known:
			if err := write(key); err != nil {
				return err
			}
		}
		if err := s.awaitRemovals(ctx, digest); err != nil {
			return err
		}
		quiet = true
	}
	return agent.Errorf(agent.CodeUnavailable, opPut, "it is removed over and over")
}

// awaitRemovals returns when no removal of a digest is under way. One that takes longer than removals may take has lost its process.
func (s *Store) awaitRemovals(ctx context.Context, digest string) error {
	var (
		sign  string
		since time.Time
	)
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		object, err := s.bucket.List(&blob.ListOptions{Prefix: gonePrefix + digest + "-"}).Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case gcerrors.Code(err) == gcerrors.NotFound: // it ended while the list was made
		case err != nil:
			return fail(ctx, opPut, err)
		case object.Key != sign:
			sign, since = object.Key, time.Now()
		case time.Since(since) > 2*s.removal: // what it began at its last moment is over too
			_ = s.bucket.Delete(ctx, sign) // or somebody else just has
		}
		select {
		case <-ctx.Done():
			return agent.Interrupted(ctx, opPut)
		case <-look.C:
		}
	}
}
