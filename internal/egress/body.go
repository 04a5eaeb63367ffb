package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// boundedBody is the body of a response, and returns an error after maxBytes. So a response without a Content-Length, or one that decompresses to a
// multiple of its size, costs no more memory than the limit.
type boundedBody struct {
	ctx       context.Context // of the request
	body      io.ReadCloser
	remaining int64 // negative once the limit was exceeded
	maxBytes  int64
	host      string
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.remaining < 0 {
		return 0, tooLargeError(b.host, b.maxBytes)
	}
	if int64(len(p)) > b.remaining+1 { // one byte more than the limit, to notice that it is exceeded
		p = p[:b.remaining+1]
	}
	n, err := b.body.Read(p)
	b.remaining -= int64(n)
	if b.remaining < 0 {
		return n - 1, tooLargeError(b.host, b.maxBytes)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err // callers compare with io.EOF
	}
	return n, requestError(b.ctx, b.host, err)
}

func (b *boundedBody) Close() error { return b.body.Close() }

// maxReason is how many bytes of an error are quoted. The errors of net/http quote invalid responses.
const maxReason = 200

// shortReason returns the text of an error without the URL of [url.Error] and the addresses of [net.OpError].
func shortReason(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if o := (*net.OpError)(nil); errors.As(err, &o) {
		err = o.Err
	}
	return clip.Bytes(err.Error(), maxReason)
}
