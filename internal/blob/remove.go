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
	// gonePrefix has one object, the sign, for each removal in progress. All processes see it.
	gonePrefix = "~gone/"
	// defaultRemoval bounds a removal. A sign that stays twice as long belongs to a process that died.
	defaultRemoval = 10 * time.Second
	// lookAgain is the interval at which a Put checks whether a removal has ended.
	lookAgain = 20 * time.Millisecond
	// maxWrites bounds how often a Put starts again because its content was removed meanwhile.
	maxWrites = 8
)

// Remove removes the content of a reference. Missing content is no error. If a Put of the same content, in any process, begins during the
// removal or later, the content is there when the Put ends: a removal has a sign in the bucket until it has deleted, and a Put checks the
// content again after it has seen no sign.
//
// With a ledger, content that somebody refers to or has just stored stays, and the error is [agent.CodeConflict]. Without a ledger the
// caller must know that it may be removed. A malformed reference or tenant is [agent.CodeInvalid], and so are compiled plans, which are
// never removed: running turns refer to them only by their hash.
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
		_ = s.bucket.Delete(tidy, sign) // Sweep removes it if this fails
	}()
	if err := s.bucket.WriteAll(ctx, sign, nil, nil); err != nil {
		return bucketError(ctx, opRemove, err)
	}
	if s.ledger != nil { // while the sign is there: a Put of the content waits for the removal from now on
		switch released, err := s.ledger.Release(ctx, tenant, ref); {
		case err != nil:
			return fmt.Errorf("%s: %w", opRemove, err)
		case !released:
			return agent.Errorf(agent.CodeConflict, opRemove, "%s is in use", ref)
		}
	}
	if err := agent.Interrupted(ctx, opRemove); err != nil { // not every driver checks, and others may consider this removal dead by now
		return err
	}
	if err := s.bucket.Delete(ctx, objectKey(tenant, digest)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return bucketError(ctx, opRemove, err)
	}
	return nil
}

// putObject writes an object unless it exists, and returns once no removal can delete it: it is in the ledger, if there is one, before the
// first check, and it exists after a moment without a removal. It may call write several times.
func (s *Store) putObject(ctx context.Context, tenant, digest string, size int64, write func(key string) error) error {
	key := objectKey(tenant, digest)
	if s.ledger != nil && tenant != plansFolder {
		if err := s.ledger.RecordPut(ctx, tenant, scheme+digest, size); err != nil {
			return fmt.Errorf("%s: %w", opPut, err)
		}
	}
	isQuiet := false // there was a moment without a removal since the last write
	for range maxWrites {
		exists, err := s.bucket.Exists(ctx, key)
		switch {
		case err != nil:
			return bucketError(ctx, opPut, err)
		case exists && isQuiet:
			return nil
		case !exists:
			if err := write(key); err != nil {
				return err
			}
		}
		if err := s.awaitRemovals(ctx, digest); err != nil {
			return err
		}
		isQuiet = true
	}
	return agent.Errorf(agent.CodeUnavailable, opPut, "it is removed over and over")
}

// awaitRemovals waits until no removal of a digest is in progress. It ignores a removal that takes so long that its process must have died.
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
		case gcerrors.Code(err) == gcerrors.NotFound: // the removal ended while the list was made
		case err != nil:
			return bucketError(ctx, opPut, err)
		case object.Key != sign:
			sign, since = object.Key, time.Now()
		case time.Since(since) > 2*s.removal: // calls that it began at its last moment have ended too
			_ = s.bucket.Delete(ctx, sign) // or another process has deleted it
		}
		select {
		case <-ctx.Done():
			return agent.Interrupted(ctx, opPut)
		case <-look.C:
		}
	}
}
