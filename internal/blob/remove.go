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
	// gonePrefix has a marker, an empty object, for each removal in progress. All processes see it.
	gonePrefix = "~gone/"
	// defaultRemovalTime is how long a removal may take. A marker that exists twice as long belongs to a process that died.
	defaultRemovalTime = 10 * time.Second
	// removalCheckInterval is the interval at which a Put checks whether a removal has ended.
	removalCheckInterval = 20 * time.Millisecond
	// maxWrites is how often a Put writes its content because it was removed meanwhile.
	maxWrites = 8
)

// Remove removes the content of a reference. It returns nil if there is none. If a Put of the same content begins during the removal or later, in any
// process, the content exists when the Put ends: a removal has a marker in the bucket until it has deleted the content, and a Put checks the content
// again after it has seen no marker.
//
// With a ledger, the error is [agent.CodeConflict] if something refers to the content or it was just stored. Without a ledger, the caller must know that
// the content may be removed. The error is [agent.CodeInvalid] for a malformed reference or tenant, and for compiled plans, which are never removed.
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
	ctx, cancel := context.WithTimeout(ctx, s.removalTime)
	defer cancel()
	marker := gonePrefix + digest + "-" + rand.Text()
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = s.bucket.Delete(cleanup, marker) // Sweep removes it if this fails
	}()
	if err := s.bucket.WriteAll(ctx, marker, nil, nil); err != nil {
		return bucketError(ctx, opRemove, err)
	}
	if s.ledger != nil { // after the marker was written, so that a Put that begins now waits for the removal
		switch isReleased, err := s.ledger.Release(ctx, tenant, ref); {
		case err != nil:
			return fmt.Errorf("%s: %w", opRemove, err)
		case !isReleased:
			return agent.Errorf(agent.CodeConflict, opRemove, "%s is in use", ref)
		}
	}
	if err := agent.Interrupted(ctx, opRemove); err != nil { // not every driver checks ctx, and a Put may consider this removal dead by now
		return err
	}
	if err := s.bucket.Delete(ctx, objectKey(tenant, digest)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return bucketError(ctx, opRemove, err)
	}
	return nil
}

// putObject writes an object unless it exists, and returns when no removal can delete it: the object was in the ledger before the first check, and it
// exists after a moment without a removal. It may call write several times.
func (s *Store) putObject(ctx context.Context, tenant, digest string, size int64, write func(key string) error) error {
	key := objectKey(tenant, digest)
	if s.ledger != nil && tenant != plansFolder {
		if err := s.ledger.RecordPut(ctx, tenant, scheme+digest, size); err != nil {
			return fmt.Errorf("%s: %w", opPut, err)
		}
	}
	hadNoRemoval := false // whether there was a moment without a removal since the last write
	for range maxWrites {
		exists, err := s.bucket.Exists(ctx, key)
		switch {
		case err != nil:
			return bucketError(ctx, opPut, err)
		case exists && hadNoRemoval:
			return nil
		case !exists:
			if err := write(key); err != nil {
				return err
			}
		}
		if err := s.awaitRemovals(ctx, digest); err != nil {
			return err
		}
		hadNoRemoval = true
	}
	return agent.Errorf(agent.CodeUnavailable, opPut, "the content was removed %d times while it was stored", maxWrites)
}

// awaitRemovals waits until no removal of a digest is in progress. It ignores a removal that takes so long that its process must have died.
func (s *Store) awaitRemovals(ctx context.Context, digest string) error {
	var (
		marker    string // the first one, since firstSeen
		firstSeen time.Time
	)
	ticker := time.NewTicker(removalCheckInterval)
	defer ticker.Stop()
	for {
		object, err := s.bucket.List(&blob.ListOptions{Prefix: gonePrefix + digest + "-"}).Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case gcerrors.Code(err) == gcerrors.NotFound: // the removal ended while the list was made
		case err != nil:
			return bucketError(ctx, opPut, err)
		case object.Key != marker:
			marker, firstSeen = object.Key, time.Now()
		case time.Since(firstSeen) > 2*s.removalTime: // calls that the removal began before its limit have ended too
			_ = s.bucket.Delete(ctx, marker) // another process may have deleted it
		}
		select {
		case <-ctx.Done():
			return agent.Interrupted(ctx, opPut)
		case <-ticker.C:
		}
	}
}
