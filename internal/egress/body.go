package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// boundedBody reads at most left bytes of a response and then fails. So a response without an announced length, or one that decompresses
// to a thousand times its size, costs no more memory than the bound.
type boundedBody struct {
	ctx   context.Context // lives exactly as long as the request it belongs to
	body  io.ReadCloser
	left  int64
	bound int64
	host  string
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, tooLargeError(b.host, b.bound)
	}
	if int64(len(p)) > b.left+1 { // one more than allowed, to tell "exactly" from "more"
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, tooLargeError(b.host, b.bound)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err // io.EOF must stay itself
	}
	return n, requestError(b.ctx, b.host, err)
}

func (b *boundedBody) Close() error { return b.body.Close() }

// maxReason is the maximum number of bytes of an error that are quoted: net/http quotes what a server sent in place of a response.
const maxReason = 200

// shortReason returns an error without the URL of [url.Error] and the addresses of [net.OpError].
func shortReason(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if o := (*net.OpError)(nil); errors.As(err, &o) {
		err = o.Err
	}
	return clip.Bytes(err.Error(), maxReason)
}
