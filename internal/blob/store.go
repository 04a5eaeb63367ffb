package blob

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	_ "gocloud.dev/blob/s3blob"   // s3://
	"gocloud.dev/gcerrors"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultMaxBytes = 1 << 30
	// spoolBytes is how much content is kept in memory to compute its hash before anything is written.
	spoolBytes = 1 << 20
	// cleanupTimeout is how long the removal of a temporary object may take.
	cleanupTimeout = 10 * time.Second
	tempPrefix     = "~tmp/" // a tenant's name cannot have a tilde
)

// Store is a content-addressed store in one bucket. Its methods may be called from any goroutine.
type Store struct {
	bucket      *blob.Bucket
	maxBytes    int64
	removalTime time.Duration // how long a removal may take
	ledger      Ledger        // or nil
	s3          string        // s3://<bucket>/<prefix>; empty if the bucket is not in S3
}

// Option changes a rare setting of a [Store].
type Option func(*Store)

// MaxBytes is the maximum size of one blob, uncompressed. The default is 1 GiB.
func MaxBytes(n int64) Option { return func(s *Store) { s.maxBytes = n } }

// Ledger records content, the time when it was last stored, and the references to it. See the package comment. References are cas://sha256:<hex>.
type Ledger interface {
	// RecordPut records that content is about to be stored. It cannot be released within the grace period from now on.
	RecordPut(ctx context.Context, tenant, ref string, bytes int64) error
	// Release atomically removes content from the ledger if nothing refers to it and it was not stored within the grace period. It reports whether
	// the content may be removed.
	Release(ctx context.Context, tenant, ref string) (bool, error)
}

// WithLedger makes every Put record its content in a ledger, and every Remove ask the ledger. Processes that share a bucket must share the
// ledger.
func WithLedger(l Ledger) Option { return func(s *Store) { s.ledger = l } }

// Open opens the bucket of a URL. It creates a missing file:// folder. The error is [agent.CodeInvalid] if no built-in driver supports the
// URL.
func Open(ctx context.Context, bucketURL string, opts ...Option) (*Store, error) {
	s := &Store{maxBytes: defaultMaxBytes, removalTime: defaultRemovalTime}
	for _, o := range opts {
		o(s)
	}
	if s.maxBytes <= 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "open blob store", "want a limit of more than 0 bytes, got %d", s.maxBytes)
	}
	bucketURL, err := withDefaults(bucketURL)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(bucketURL); err == nil && !blob.DefaultURLMux().ValidBucketScheme(u.Scheme) {
		return nil, agent.Invalid("storage.blob_url", "this program has no driver for %.20s://, only for %s; gs:// and azblob:// are in turnstone worker, "+
			"and in a worker built from ./worker/clouds", u.Scheme, strings.Join(blob.DefaultURLMux().BucketSchemes(), ", "))
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

// withDefaults returns the URL with settings for the file driver, so that it creates its folder, keeps uploads on the same disk, and writes no metadata
// files.
func withDefaults(bucketURL string) (string, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		// The parser's error quotes the URL, which may contain a password.
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

// Sweep removes the remains of uploads and removals that began before a time and whose process has died. It returns how many.
func (s *Store) Sweep(ctx context.Context, before time.Time) (int, error) {
	uploads, err := s.sweepPrefix(ctx, tempPrefix, before)
	if err != nil {
		return uploads, err
	}
	removals, err := s.sweepPrefix(ctx, gonePrefix, before)
	return uploads + removals, err
}

// sweepPrefix deletes the old objects with a prefix.
func (s *Store) sweepPrefix(ctx context.Context, prefix string, before time.Time) (n int, err error) {
	n, err = deleteObjects(ctx, s.bucket, prefix, func(object *blob.ListObject) (isOld, isLast bool) {
		return !object.ModTime.After(before), false
	})
	if err != nil {
		return n, bucketError(ctx, "sweep blob store", err)
	}
	return n, nil
}

// bucketError returns an error of the bucket with its code. That is [agent.CodeUnavailable] unless the driver reports another kind of error, because
// drivers have many errors for a bucket that cannot be reached.
func bucketError(ctx context.Context, op string, err error) error {
	if err := agent.Interrupted(ctx, op); err != nil {
		return err
	}
	code := agent.CodeUnavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		code = agent.CodeNotFound
	case gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		code = agent.CodeInternal // the operator has to fix it
	default:
	}
	return agent.Errorf(code, op, "%w", err)
}
