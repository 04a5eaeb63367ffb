package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	opOpen = "open blob"
	opRead = "read blob"
	// maxWindow limits the decoder's memory for any stream. Earlier releases wrote with a window of 8 MiB.
	maxWindow = 8 << 20
)

// Open returns the content of a reference, or of an address from [Store.S3Ref]. When Read returns io.EOF, the content was verified. If the content is
// corrupted, the last Read returns [agent.CodeInternal] instead. ctx must not end before the reader is closed.
//
// The error for a malformed reference or tenant is [agent.CodeInvalid], and for content that the tenant does not have [agent.CodeNotFound].
func (s *Store) Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	if err := checkTenant(tenant); err != nil {
		return nil, err
	}
	digest, err := s.digestOf(tenant, ref)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, objectKey(tenant, digest), nil)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, agent.Errorf(agent.CodeNotFound, opOpen, "no blob %s", ref)
		}
		return nil, bucketError(ctx, opOpen, err)
	}
	source := &source{r: r}
	z, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, errors.Join(agent.Errorf(agent.CodeInternal, opOpen, "%w", err), r.Close())
	}
	return &verifiedReader{ctx: ctx, ref: ref, digest: digest, source: source, object: r, z: z, hash: sha256.New(), remaining: s.maxBytes}, nil
}

// source keeps the error of the bucket's stream, because the decoder's errors do not distinguish it from corrupted content.
type source struct {
	r   io.Reader
	err error // other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// verifiedReader returns the content of an object, and an error at the end if it has another hash.
type verifiedReader struct {
	ctx         context.Context // of Open, to classify errors
	ref, digest string
	source      *source
	object      *blob.Reader
	z           *zstd.Decoder
	hash        hash.Hash
	remaining   int64
	lastErr     error // not nil if reading has ended
}

func (v *verifiedReader) Read(p []byte) (int, error) {
	if v.lastErr != nil {
		return 0, v.lastErr
	}
	n, err := v.z.Read(p)
	if int64(n) > v.remaining { // Put did not write it, so it may be a compression bomb
		v.lastErr = agent.Errorf(agent.CodeInternal, opRead, "%s is corrupted: larger than any blob", v.ref)
		return 0, v.lastErr
	}
	v.remaining -= int64(n)
	v.hash.Write(p[:n])
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF && v.source.err != nil: //nolint:errorlint // the contract of io.Reader
		v.lastErr = bucketError(v.ctx, opRead, v.source.err)
	case err != io.EOF: //nolint:errorlint // as above
		v.lastErr = agent.Errorf(agent.CodeInternal, opRead, "%s is corrupted: %w", v.ref, err)
	case hex.EncodeToString(v.hash.Sum(nil)) != v.digest:
		v.lastErr = agent.Errorf(agent.CodeInternal, opRead, "%s is corrupted: its content has another hash", v.ref)
	default:
		v.lastErr = io.EOF
	}
	return n, v.lastErr
}

// Close releases the reader. It does not verify content that was not read.
func (v *verifiedReader) Close() error {
	v.z.Close()
	if v.lastErr == nil {
		v.lastErr = errClosed
	}
	if err := v.object.Close(); err != nil {
		return bucketError(v.ctx, opRead, err)
	}
	return nil
}

var errClosed = errors.New("read blob: reader is closed")
