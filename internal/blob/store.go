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
	// tidyTimeout bounds the removal of an upload after its caller is gone.
	tidyTimeout = 10 * time.Second
	tempPrefix  = "~tmp/" // no tenant's name has a tilde
)

// Store is a content-addressed store in one bucket. Its methods may be called from any goroutine.
type Store struct {
	bucket   *blob.Bucket
	maxBytes int64
	removal  time.Duration // the longest that a removal may take
	ledger   Ledger        // or nil
	s3       string        // s3://<bucket>/<prefix>; empty if the bucket is not one of S3
}

// Option changes a rare setting of a [Store].
type Option func(*Store)

// MaxBytes bounds one blob, uncompressed; the default is 1 GiB.
func MaxBytes(n int64) Option { return func(s *Store) { s.maxBytes = n } }

// Ledger has the references to content, and when it was stored last; the package's comment says what it guarantees. References are
// cas://sha256:<hex>.
type Ledger interface {
	// RecordPut records that content of so many bytes is about to be stored. It is not released within the grace period from now on.
	RecordPut(ctx context.Context, tenant, ref string, bytes int64) error
	// Release atomically removes content from the ledger if nobody refers to it and nobody has stored it within the grace period, and
	// reports whether the content may be removed.
	Release(ctx context.Context, tenant, ref string) (bool, error)
}

// WithLedger makes every Put record its content in a ledger, and every Remove ask the ledger. Processes that share a bucket must share the
// ledger.
func WithLedger(l Ledger) Option { return func(s *Store) { s.ledger = l } }

// Open opens the bucket of a URL. It creates a missing file:// folder. The error is [agent.CodeInvalid] if no built-in driver supports the
// URL.
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

// withDefaults returns the URL with settings for the file driver: it creates its folder, keeps uploads on the same disk, and writes no
// metadata files.
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

// Sweep removes the remains of uploads and removals that began before a time and never finished because their process died. It returns how
// many.
func (s *Store) Sweep(ctx context.Context, before time.Time) (int, error) {
	uploads, err := s.sweep(ctx, tempPrefix, before)
	if err != nil {
		return uploads, err
	}
	removals, err := s.sweep(ctx, gonePrefix, before)
	return uploads + removals, err
}

func (s *Store) sweep(ctx context.Context, prefix string, before time.Time) (n int, err error) {
	n, err = deleteObjects(ctx, s.bucket, prefix, func(object *blob.ListObject) (isOld, isLast bool) {
		return !object.ModTime.After(before), false
	})
	if err != nil {
		return n, bucketError(ctx, "sweep blob store", err)
	}
	return n, nil
}

// bucketError returns an error of the bucket with its code. Unless the code of the driver says otherwise, it is [agent.CodeUnavailable]:
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
		code = agent.CodeInternal // the operator has to fix it, whatever the caller asked for
	default:
	}
	return agent.Errorf(code, op, "%w", err)
}
