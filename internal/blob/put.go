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
	// window is how far back the encoder searches. Stored content repeats within rows; eight times the window would cost 30 MB more for each
	// Put and save almost nothing.
	window = 1 << 20
)

// Put stores the content of r and returns its reference, cas://sha256:<hex>. Existing content is not written again. With a ledger the
// content stays for the grace period, so that the caller can refer to it.
//
// Content above the bound is [agent.CodeOverflow], a bucket that cannot be reached [agent.CodeUnavailable]; an error of r is returned
// wrapped. After an error Put has stored nothing.
func (s *Store) Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error) {
	if err := checkTenant(tenant); err != nil {
		return "", err
	}
	in := &intake{ctx: ctx, r: r, hash: sha256.New(), left: s.maxBytes, limit: s.maxBytes}
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

// putLarge computes the hash while it writes to a temporary object, and then copies the object.
func (s *Store) putLarge(ctx context.Context, tenant string, in *intake, head io.Reader) (string, error) {
	temp := tempPrefix + rand.Text()
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer cancel()
		_ = s.bucket.Delete(tidy, temp) // Sweep removes it if this fails
	}()
	if err := s.write(ctx, temp, io.MultiReader(head, in), in); err != nil {
		return "", err
	}
	sum := in.hash.Sum(nil)
	err := s.putObject(ctx, tenant, hex.EncodeToString(sum), in.limit-in.left, func(key string) error {
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

// write stores the content of r as an object, or nothing. in, if not nil, has the error of r itself.
func (s *Store) write(ctx context.Context, key string, r io.Reader, in *intake) error {
	writing, abort := context.WithCancel(ctx)
	defer abort()
	w, err := s.bucket.NewWriter(writing, key, &blob.WriterOptions{
		ContentType: "application/zstd", DisableContentTypeDetection: true, // the bucket must not interpret the object
	})
	if err != nil {
		return bucketError(ctx, opPut, err)
	}
	if err := compress(w, r); err != nil {
		abort() // so that the driver drops the half-written object
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

// intake hashes and bounds what it reads, and keeps the error that ended it.
type intake struct {
	ctx   context.Context // lives as long as one Put
	r     io.Reader
	hash  hash.Hash
	left  int64
	limit int64
	err   error // other than io.EOF
}

func (in *intake) Read(p []byte) (int, error) {
	if in.err == nil {
		in.err = agent.Interrupted(in.ctx, opPut)
	}
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.r.Read(p)
	if int64(n) > in.left {
		in.err = agent.Errorf(agent.CodeOverflow, opPut, "more than %d bytes", in.limit)
		return 0, in.err
	}
	in.left -= int64(n)
	in.hash.Write(p[:n])
	if err != nil && err != io.EOF {
		in.err = fmt.Errorf("%s: read content: %w", opPut, err)
		err = in.err
	}
	return n, err
}
