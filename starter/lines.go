package main

import (
	"bufio"
	"io"
	"sync"
)

// maxLine bounds one line of input.
const maxLine = 1 << 20

// lineReader hands out lines of a reader that cannot be interrupted, so that waiting for one can. It starts to read at the first
// wish, and one line ahead at most.
type lineReader struct {
	start sync.Once
	in    io.Reader
	lines chan string // closed at the end of the input
}

func newLineReader(in io.Reader) *lineReader { return &lineReader{in: in, lines: make(chan string)} }

// next is the channel that yields the next line, and is closed at the end.
func (r *lineReader) next() <-chan string {
	r.start.Do(func() {
		go func() {
			defer close(r.lines)
			s := bufio.NewScanner(r.in)
			s.Buffer(nil, maxLine)
			for s.Scan() {
				r.lines <- s.Text()
			}
		}()
	})
	return r.lines
}
