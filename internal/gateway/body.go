package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How much of a body that nobody reads is thrown away.
const (
	// arrivedTime is how long an answer waits for the rest of a body that is on its way: then the connection can be used again.
	arrivedTime  = 20 * time.Millisecond
	arrivedBytes = 256 << 10
	// lingerTime and lingerBytes bound what is thrown away behind the answer. Many clients read no answer before they have sent everything;
	// hanging up on one in the middle would show it a broken connection instead of the reason (nginx: lingering close).
	lingerTime  = 5 * time.Second
	lingerBytes = 64 << 20
)

// requestBody is the body of a request. It bounds the time in which it must arrive, and knows whether it was read to its end.
type requestBody struct {
	io.ReadCloser

	control *http.ResponseController
	timeout time.Duration
	expects bool // the client waits for 100 Continue before it sends
	begun   bool
	ended   bool
	failed  bool
}

// boundBody bounds the body of a request, nil where it has none. The server's deadline for reading stands until the body has ended: were it
// to stay, it would end a streamed answer.
func (s *httpServer) boundBody(w http.ResponseWriter, r *http.Request) (*requestBody, *http.Request) {
	control := http.NewResponseController(w)
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		_ = control.SetReadDeadline(time.Time{}) // an error means that the writer has no deadlines, as in a test with a recorder
		return nil, r
	}
	b := &requestBody{ReadCloser: r.Body, control: control, timeout: s.cfg.Limits.ReadTimeout, expects: r.Header.Get("Expect") != ""}
	r = r.WithContext(r.Context()) // net/http looks at the body of its own request
	r.Body = b
	return b, r
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.control.SetReadDeadline(time.Now().Add(b.timeout))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended = errors.Is(err, io.EOF)
		b.failed = !b.ended
	}
	if b.ended {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// discard throws away what arrives within a time.
func (b *requestBody) discard(most int64, within time.Duration) {
	b.begun = true
	if b.control.SetReadDeadline(time.Now().Add(within)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, b, most)
}

// beginAnswer is called before the header of the answer is written. Where the client is still sending then, the answer says that the
// connection ends with it: net/http would wait for the rest first.
func (b *requestBody) beginAnswer(h http.Header, r *http.Request) {
	if b == nil || b.ended || r.ProtoMajor > 1 { // HTTP/2 resets the stream alone
		return
	}
	if !b.failed && (b.begun || !b.expects) && r.ContentLength > 0 && r.ContentLength <= arrivedBytes {
		b.discard(arrivedBytes, arrivedTime)
		b.failed = false // that it has not arrived yet is nobody's fault
	}
	if !b.ended {
		h.Set("Connection", "close")
	}
}

// endAnswer is called behind the answer: what a client still sends is thrown away for a while, so that it reads the answer.
func (b *requestBody) endAnswer(r *http.Request) {
	if b == nil || b.ended || r.ProtoMajor > 1 {
		return
	}
	within := lingerTime
	// A client that waits for 100 Continue has not begun to send, and one that was too slow has had its time.
	if b.control.Flush() != nil || (b.expects && !b.begun) || b.failed {
		within = 0
	}
	b.discard(lingerBytes, within)
}
