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
	// window is how far back the encoder looks: what is stored repeats itself within rows, and eight times as much would cost 30 MB more for
	// each Put under way and save next to nothing.
	window = 1 << 20
)

// Put stores what r yields and returns its reference, cas://sha256:<hex>. Content that is there already is not written again. With a ledger
// the content stays for a grace from now on, for the caller to refer to it meanwhile.
//
// [agent.CodeOverflow] for content above the bound, [agent.CodeUnavailable] when the bucket cannot be reached; an error of r is
// returned wrapped. After an error nothing can be found under the content's reference that was not there before.
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
	case err == io.EOF: //nolint:errorlint // io.CopyN's own word for the end
		return s.putSmall(ctx, tenant, in.hash.Sum(nil), head.Bytes())
	}
	return s.putLarge(ctx, tenant, in, &head)
}

// putSmall knows the name before it writes.
func (s *Store) putSmall(ctx context.Context, tenant string, sum, content []byte) (string, error) {
	err := s.keep(ctx, tenant, hex.EncodeToString(sum), int64(len(content)), func(key string) error {
		return s.write(ctx, key, bytes.NewReader(content), nil)
	})
	if err != nil {
		return "", err
	}
	return makeRef(sum), nil
}

// putLarge learns the name while it writes to a temporary object, and copies that.
func (s *Store) putLarge(ctx context.Context, tenant string, in *intake, head io.Reader) (string, error) {
	temp := tempPrefix + rand.Text()
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer cancel()
		_ = s.bucket.Delete(tidy, temp) // or it was never made; Sweep removes what stays
	}()
	if err := s.write(ctx, temp, io.MultiReader(head, in), in); err != nil {
		return "", err
	}
	sum := in.hash.Sum(nil)
	err := s.keep(ctx, tenant, hex.EncodeToString(sum), in.limit-in.left, func(key string) error {
		if err := s.bucket.Copy(ctx, key, temp, nil); err != nil {
			return fail(ctx, opPut, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return makeRef(sum), nil
}

// write makes an object of what r yields, or none at all. The intake, if any, says whether r itself was at fault.
func (s *Store) write(ctx context.Context, key string, r io.Reader, in *intake) error {
	writing, abort := context.WithCancel(ctx)
	defer abort()
	w, err := s.bucket.NewWriter(writing, key, &blob.WriterOptions{
		ContentType: "application/zstd", DisableContentTypeDetection: true, // the object is not for the bucket to interpret
	})
	if err != nil {
		return fail(ctx, opPut, err)
	}
	if err := compress(w, r); err != nil {
		abort() // the driver's way to drop a half-written object
		_ = w.Close()
		if in != nil && in.err != nil {
			return in.err
		}
		return fail(ctx, opPut, err)
	}
	if err := w.Close(); err != nil {
		return fail(ctx, opPut, err)
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

// intake hashes and bounds what it passes on, and remembers why it ended.
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
