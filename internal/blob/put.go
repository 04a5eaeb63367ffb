package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	opPut = "put blob"
	// window is how far back the encoder searches. Stored content repeats within rows, so a window of 8 MiB would cost 30 MB more for each Put and
	// save almost nothing.
	window = 1 << 20
)

// Put stores the content of r and returns its reference, cas://sha256:<hex>. It does not write existing content again. With a ledger, the content stays
// for the grace period, in which the caller can refer to it.
//
// The error is [agent.CodeOverflow] for content above the limit, and [agent.CodeUnavailable] if the bucket cannot be reached. An error of r is wrapped.
// After an error, Put has stored nothing.
func (s *Store) Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error) {
	if err := checkTenant(tenant); err != nil {
		return "", err
	}
	in := &hashingReader{ctx: ctx, r: r, hash: sha256.New(), remaining: s.maxBytes, maxBytes: s.maxBytes}
	var head bytes.Buffer
	_, err = io.CopyN(&head, in, spoolBytes)
	switch {
	case in.err != nil:
		return "", in.err
	case err == io.EOF: //nolint:errorlint // the contract of io.CopyN
		return s.putSmall(ctx, tenant, in.hash.Sum(nil), head.Bytes())
	}
	return s.putLarge(ctx, tenant, in, &head)
}

// putSmall stores content whose hash is known.
func (s *Store) putSmall(ctx context.Context, tenant string, sum, content []byte) (string, error) {
	err := s.putObject(ctx, tenant, hex.EncodeToString(sum), int64(len(content)), func(key string) error {
		return s.write(ctx, key, bytes.NewReader(content), nil)
	})
	if err != nil {
		return "", err
	}
	return makeRef(sum), nil
}

// putLarge computes the hash while it writes a temporary object, and then copies the object.
func (s *Store) putLarge(ctx context.Context, tenant string, in *hashingReader, head io.Reader) (string, error) {
	temp := tempPrefix + rand.Text()
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = s.bucket.Delete(cleanup, temp) // Sweep removes it if this fails
	}()
	if err := s.write(ctx, temp, io.MultiReader(head, in), in); err != nil {
		return "", err
	}
	sum := in.hash.Sum(nil)
	err := s.putObject(ctx, tenant, hex.EncodeToString(sum), in.maxBytes-in.remaining, func(key string) error {
		if err := s.bucket.Copy(ctx, key, temp, nil); err != nil {
			return bucketError(ctx, opPut, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return makeRef(sum), nil
}

// write stores the content of r as an object, or nothing. If in is not nil, it reports an error of r itself.
func (s *Store) write(ctx context.Context, key string, r io.Reader, in *hashingReader) error {
	writing, abort := context.WithCancel(ctx)
	defer abort()
	w, err := s.bucket.NewWriter(writing, key, &blob.WriterOptions{
		ContentType: "application/zstd", DisableContentTypeDetection: true, // the bucket must not interpret the object
	})
	if err != nil {
		return bucketError(ctx, opPut, err)
	}
	if err := compress(w, r); err != nil {
		abort() // so that the driver discards the partial object
		_ = w.Close()
		if in != nil && in.err != nil {
			return in.err
		}
		return bucketError(ctx, opPut, err)
	}
	if err := w.Close(); err != nil {
		return bucketError(ctx, opPut, err)
	}
	return nil
}

func compress(w io.Writer, r io.Reader) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	if _, err := z.ReadFrom(r); err != nil {
		return err
	}
	return z.Close()
}

// hashingReader reads the content of a Put. It computes the hash, limits the size, and keeps the error of the content.
type hashingReader struct {
	ctx       context.Context // of Put
	r         io.Reader
	hash      hash.Hash
	remaining int64
	maxBytes  int64
	err       error // other than io.EOF
}

func (in *hashingReader) Read(p []byte) (int, error) {
	if in.err == nil {
		in.err = agent.Interrupted(in.ctx, opPut)
	}
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.r.Read(p)
	if int64(n) > in.remaining {
		in.err = agent.Errorf(agent.CodeOverflow, opPut, "more than %d bytes", in.maxBytes)
		return 0, in.err
	}
	in.remaining -= int64(n)
	in.hash.Write(p[:n])
	if err != nil && err != io.EOF {
		in.err = fmt.Errorf("%s: read content: %w", opPut, err)
		err = in.err
	}
	return n, err
}
