package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Bounds for discarding the unread rest of a request body.
const (
	// Before the response, a short rest that arrives at once is discarded, so that the connection can serve further requests.
	arrivedTime  = 20 * time.Millisecond
	arrivedBytes = 256 << 10
	// After the response, the rest is discarded for some time. Many clients send everything before they read the response; if the gateway closed
	// the connection earlier they would not see it (nginx calls this lingering close).
	lingerTime  = 5 * time.Second
	lingerBytes = 64 << 20
)

// requestBody is the body of a request. It must arrive within timeout after the first read.
type requestBody struct {
	io.ReadCloser

	control        *http.ResponseController
	timeout        time.Duration
	awaitsContinue bool // the client sends nothing before it gets 100 Continue
	isBegun        bool // reading has begun
	isRead         bool // read to its end
	hasFailed      bool // reading has failed
}

// boundBody returns the body of a request, nil if there is none, and the request with it. It removes the server's read deadline when the body has
// been read, because the deadline would end a streamed response.
func (s *httpServer) boundBody(w http.ResponseWriter, r *http.Request) (*requestBody, *http.Request) {
	control := http.NewResponseController(w)
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		_ = control.SetReadDeadline(time.Time{}) // fails only for a writer without deadlines, such as a recorder
		return nil, r
	}
	b := &requestBody{ReadCloser: r.Body, control: control, timeout: s.cfg.Limits.ReadTimeout, awaitsContinue: r.Header.Get("Expect") != ""}
	r = r.WithContext(r.Context()) // a copy: net/http uses the body of its own request
	r.Body = b
	return b, r
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	if !b.isBegun {
		b.isBegun = true
		_ = b.control.SetReadDeadline(time.Now().Add(b.timeout))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.isRead = errors.Is(err, io.EOF)
		b.hasFailed = !b.isRead
	}
	if b.isRead {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// discard reads and drops at most maxBytes that arrive within a time.
func (b *requestBody) discard(maxBytes int64, within time.Duration) {
	b.isBegun = true
	if b.control.SetReadDeadline(time.Now().Add(within)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, b, maxBytes)
}

// beginResponse is called before the header of the response is written. If the client is still sending, it sets Connection: close, because
// net/http would otherwise wait for the rest of the body.
func (b *requestBody) beginResponse(h http.Header, r *http.Request) {
	if b == nil || b.isRead || r.ProtoMajor > 1 { // over HTTP/2 only the stream would end
		return
	}
	if !b.hasFailed && (b.isBegun || !b.awaitsContinue) && r.ContentLength > 0 && r.ContentLength <= arrivedBytes {
		b.discard(arrivedBytes, arrivedTime)
		b.hasFailed = false // the client may just be slower than arrivedTime
	}
	if !b.isRead {
		h.Set("Connection", "close")
	}
}

// endResponse is called after the response. It discards the rest of the body for some time, so that the client gets to read the response.
func (b *requestBody) endResponse(r *http.Request) {
	if b == nil || b.isRead || r.ProtoMajor > 1 {
		return
	}
	within := lingerTime
	// A client that waits for 100 Continue has sent nothing, and one that was too slow gets no more time.
	if b.control.Flush() != nil || (b.awaitsContinue && !b.isBegun) || b.hasFailed {
		within = 0
	}
	b.discard(lingerBytes, within)
}
