package dataset

import (
	"bufio"
	"bytes"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

// maxQuoted bounds what an error quotes, in bytes.
const maxQuoted = 100

// limitedReader fails once more than left bytes were read of r.
type limitedReader struct {
	r        io.Reader
	left     int64
	bound    int64
	isPaused bool // bytes do not count while they are skipped
}

func limitReader(r io.Reader, bound int64) *limitedReader {
	return &limitedReader{r: r, left: bound, bound: bound}
}

func (b *limitedReader) Read(p []byte) (int, error) {
	if b.isPaused {
		return b.r.Read(p)
	}
	if b.left < 0 {
		return 0, tooLarge(b.bound)
	}
	if int64(len(p)) > b.left+1 { // one more than allowed, to tell "exactly" from "more"
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, tooLarge(b.bound) // without bytes, because some readers overlook an error that comes with bytes
	}
	return n, err
}

func tooLarge(bound int64) *agent.Error {
	return agent.Errorf(agent.CodeOverflow, "", "is larger than %d bytes", bound)
}

func tooMany(bound int) *agent.Error {
	return agent.Errorf(agent.CodeOverflow, "", "has more than %d rows", bound)
}

// arena keeps copies of rows in few allocations, about as long as the rows together.
type arena struct {
	free  []byte
	chunk int
}

const (
	firstChunk = 4 << 10
	lastChunk  = 1 << 20
)

func (a *arena) keep(v []byte) Row {
	if len(v) > len(a.free) {
		if len(v) > lastChunk/8 {
			return bytes.Clone(v)
		}
		a.chunk = min(max(2*a.chunk, firstChunk, len(v)), lastChunk)
		a.free = make([]byte, a.chunk)
	}
	n := copy(a.free, v)
	row := a.free[:n:n]
	a.free = a.free[n:]
	return row
}

// spool holds a body that must be read twice, in pieces that are freed during the second reading.
type spool struct {
	pieces [][]byte
}

// fill keeps all of r.
func (s *spool) fill(r io.Reader) error {
	for size := firstChunk; ; size = min(2*size, lastChunk) {
		piece := make([]byte, size)
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			s.pieces = append(s.pieces, piece[:n])
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// newReader reads what was kept. With drain it lets go of what was read: no other reader may follow.
func (s *spool) newReader(drain bool) io.Reader {
	return &spoolReader{pieces: s.pieces, drain: drain}
}

type spoolReader struct {
	pieces [][]byte
	at     int // within the first piece
	drain  bool
}

func (r *spoolReader) Read(p []byte) (int, error) {
	for len(r.pieces) > 0 && r.at == len(r.pieces[0]) {
		if r.drain {
			r.pieces[0] = nil
		}
		r.pieces, r.at = r.pieces[1:], 0
	}
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0][r.at:])
	r.at += n
	return n, nil
}

const byteOrderMark = "\ufeff"

// firstByte skips a byte order mark and white space and returns the first byte behind them, 0 at the end. It does not consume it.
func firstByte(r *bufio.Reader) (byte, error) {
	skipMark(r)
	for {
		c, err := r.ReadByte()
		switch {
		case err == io.EOF:
			return 0, nil
		case err != nil:
			return 0, err
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return c, r.UnreadByte()
		}
	}
}

func skipMark(r *bufio.Reader) {
	if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = r.Discard(len(mark)) // it was there a moment ago
	}
}
