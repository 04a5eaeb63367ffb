package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultMaxBytes = 1 << 30
	// spoolBytes is how much content is held in memory to learn its hash before anything is written.
	spoolBytes = 1 << 20
	// tidyTimeout bounds the removal of an upload after its caller is gone.
	tidyTimeout = 10 * time.Second
	tempPrefix  = "~tmp/" // no tenant's name has a tilde
)

// Store is a content-addressed store in one bucket. Its methods may be called from any goroutine.
type Store struct {
	bucket   *blob.Bucket
	maxBytes int64
	removal  time.Duration // how long one may take
	ledger   Ledger        // nil: there is none
	s3       string        // s3://<bucket>/<prefix> of a bucket of S3; empty: it is another kind
}

// Option changes a rare setting of a [Store].
type Option func(*Store)

// MaxBytes bounds one blob, uncompressed; the default is 1 GiB.
func MaxBytes(n int64) Option { return func(s *Store) { s.maxBytes = n } }

// Ledger knows what content is referred to, and when it was put; see the package's comment for what it promises. References are
// cas://sha256:<hex>.
type Ledger interface {
	// Putting notes that content of so many bytes is about to be put: it is not released for a grace from now on.
	Putting(ctx context.Context, tenant, ref string, bytes int64) error
	// Release takes content off the ledger if nobody refers to it and nobody has put it within the grace, at once, and says whether the
	// content may be removed.
	Release(ctx context.Context, tenant, ref string) (bool, error)
}

// WithLedger makes every Put note its content in a ledger, and every Remove ask it. All processes that share a bucket must share the ledger.
func WithLedger(l Ledger) Option { return func(s *Store) { s.ledger = l } }

// Open opens the bucket of a URL. A file:// folder is made when it does not exist. [agent.CodeInvalid] for a URL that no built-in
// driver understands.
func Open(ctx context.Context, bucketURL string, opts ...Option) (*Store, error) {
	s := &Store{maxBytes: defaultMaxBytes, removal: defaultRemoval}
	for _, o := range opts {
		o(s)
	}
	if s.maxBytes <= 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "open blob store", "a bound of %d bytes", s.maxBytes)
	}
	bucketURL, err := withDefaults(bucketURL)
	if err != nil {
		return nil, err
	}
	s.bucket, err = blob.OpenBucket(ctx, bucketURL)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "open blob store", "%w", err)
	}
	if u, err := url.Parse(bucketURL); err == nil && u.Scheme == "s3" {
		s.s3 = s3Scheme + u.Host + "/" + u.Query().Get("prefix")
	}
	return s, nil
}

// withDefaults makes the file driver create its folder, keep uploads on the same disk as what they become, and leave out
// metadata files.
func withDefaults(bucketURL string) (string, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		// The parser's error quotes the URL, and with it a password, should there be one.
		return "", agent.Errorf(agent.CodeInvalid, "open blob store", "not a URL: %w", errors.Unwrap(err))
	}
	if u.Scheme != "file" {
		return bucketURL, nil
	}
	if u.Path == "" || u.Path == "/" {
		return "", agent.Errorf(agent.CodeInvalid, "open blob store", "%q names no folder; want file:///folder", bucketURL)
	}
	q := u.Query()
	for name, value := range map[string]string{"create_dir": "true", "no_tmp_dir": "true", "metadata": "skip"} {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Close releases the bucket.
func (s *Store) Close() error {
	if err := s.bucket.Close(); err != nil {
		return fmt.Errorf("close blob store: %w", err)
	}
	return nil
}

// Ping asks whether the bucket can be reached, for health checks.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.bucket.Exists(ctx, tempPrefix+"ping"); err != nil {
		return fail(ctx, "ping blob store", err)
	}
	return nil
}

// Sweep removes what is left of uploads and removals that were begun before a time and never finished: their process died. It returns of
// how many.
func (s *Store) Sweep(ctx context.Context, before time.Time) (int, error) {
	uploads, err := s.sweep(ctx, tempPrefix, before)
	if err != nil {
		return uploads, err
	}
	removals, err := s.sweep(ctx, gonePrefix, before)
	return uploads + removals, err
}

func (s *Store) sweep(ctx context.Context, prefix string, before time.Time) (n int, err error) {
	err = again(func() error {
		for list := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
			object, err := list.Next(ctx)
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case object.ModTime.After(before):
				continue
			}
			if err := s.bucket.Delete(ctx, object.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return err
			}
			n++
		}
	})
	if err != nil {
		return n, fail(ctx, "sweep blob store", err)
	}
	return n, nil
}

// fail classifies an error of the bucket: what asking again may cure is [agent.CodeUnavailable], and a bucket that cannot be
// reached says so in many ways.
func fail(ctx context.Context, op string, err error) error {
	if err := agent.Interrupted(ctx, op); err != nil {
		return err
	}
	code := agent.CodeUnavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		code = agent.CodeNotFound
	case gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		code = agent.CodeInternal // ours to repair, whatever the caller asked for
	default:
	}
	return agent.Errorf(code, op, "%w", err)
}
