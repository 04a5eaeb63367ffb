package cli

import (
	"bufio"
	"io"
	"sync"
)

// maxLine is the largest size of a line of input in bytes.
const maxLine = 1 << 20

// lineReader sends the lines of a reader to a channel, so that waiting for a line can be interrupted. It reads at most one line ahead, and nothing
// before the first call of next.
type lineReader struct {
	start sync.Once
	in    io.Reader
	lines chan string
}

func newLineReader(in io.Reader) *lineReader { return &lineReader{in: in, lines: make(chan string)} }

// next returns the channel of lines, which is closed at the end of the input.
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
