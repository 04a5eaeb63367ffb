package blob

import (
	"context"
	"crypto/rand"
	"errors"
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
	// defaultRemoval bounds a removal: whoever has seen its sign for longer knows that its process died.
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
// Whether anybody still refers to the content is for the caller to know. [agent.CodeInvalid] for a malformed reference or tenant.
func (s *Store) Remove(ctx context.Context, tenant, ref string) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	digest, err := ParseRef(ref)
	if err != nil {
		return err
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
	if err := s.bucket.Delete(ctx, objectKey(tenant, digest)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fail(ctx, opRemove, err)
	}
	return nil
}

// keep writes an object unless it is there, and returns once it is there to stay: it has been there after a moment without a removal.
// write may be called again.
func (s *Store) keep(ctx context.Context, tenant, digest string, write func(key string) error) error {
	key := objectKey(tenant, digest)
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
		case time.Since(since) > s.removal:
			_ = s.bucket.Delete(ctx, sign) // or somebody else just has
		}
		select {
		case <-ctx.Done():
			return agent.Interrupted(ctx, opPut)
		case <-look.C:
		}
	}
}
