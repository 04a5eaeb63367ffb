package redact

import (
	"io"
	"slices"
)

const readChunk = 32 << 10

// reader masks secrets in what it reads. It holds back bytes that may begin a secret until more of the body decides.
type reader struct {
	io.ReadCloser

	masker  *Masker
	pending []byte // read and not yet decided
	masked  []byte // decided and not yet returned
	err     error  // of the body, once it ended
}

// NewReader returns a body whose secrets are masked as m does, however the body arrives in pieces.
func NewReader(body io.ReadCloser, m *Masker) io.ReadCloser {
	return &reader{ReadCloser: body, masker: m}
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.masked) == 0 && r.err == nil {
		r.fill()
	}
	if len(r.masked) == 0 {
		return 0, r.err
	}
	n := copy(p, r.masked)
	r.masked = r.masked[n:]
	return n, nil
}

// fill reads a chunk and masks as much as can be decided.
func (r *reader) fill() {
	held := len(r.pending)
	r.pending = slices.Grow(r.pending, readChunk)
	n, err := r.ReadCloser.Read(r.pending[held : held+readChunk])
	r.err = err
	var tail []byte
	r.masked, tail = r.masker.maskPrefix(r.masked, r.pending[:held+n], err != nil)
	r.pending = append(r.pending[:0], tail...)
}
