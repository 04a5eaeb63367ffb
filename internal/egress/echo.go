package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// shortestSecret is the length in bytes below which a credential is not looked for in responses: it would be found by chance.
	shortestSecret = 6
	masked         = "[redacted]"
)

// secretsOf are the values of a request's credentials, in the forms in which a server may repeat them, the longest first.
func secretsOf(ctx context.Context, req *http.Request) [][]byte {
	c, _ := ctx.Value(credentialsKey{}).(Credentials)
	var values []string
	for _, name := range c.Headers {
		for _, v := range req.Header.Values(name) {
			scheme, rest, two := strings.Cut(v, " ")
			if !two {
				rest = scheme
			}
			values = append(values, rest)
			if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "basic") {
				_, password, _ := strings.Cut(string(plain), ":")
				values = append(values, password)
			}
		}
	}
	query := req.URL.Query()
	for _, name := range c.Query {
		values = append(values, query[name]...)
	}
	var forms [][]byte
	for _, v := range values {
		if len(v) < shortestSecret {
			continue
		}
		forms = append(forms, []byte(v), []byte(url.QueryEscape(v)), []byte(url.PathEscape(v)))
		if quoted, err := json.Marshal(v); err == nil {
			forms = append(forms, bytes.Trim(quoted, `"`))
		}
	}
	slices.SortFunc(forms, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	return slices.CompactFunc(forms, bytes.Equal)
}

// unecho keeps a server from telling a tool, and with it a model, the credentials that it was sent: what it repeats of them in its
// headers and its body is masked.
func unecho(resp *http.Response, secrets [][]byte) {
	if len(secrets) == 0 {
		return
	}
	for _, values := range resp.Header {
		for i := range values {
			for _, s := range secrets {
				values[i] = strings.ReplaceAll(values[i], string(s), masked)
			}
		}
	}
	resp.Body = &maskedBody{ReadCloser: resp.Body, secrets: secrets}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// maskedBody replaces secrets in what it reads. Of what has come it holds back as much as may be the beginning of one.
type maskedBody struct {
	io.ReadCloser

	secrets [][]byte // the longest first
	in      []byte   // read, not yet judged
	out     []byte   // judged, not yet given
	err     error    // of the body, once it has one
}

const maskChunk = 32 << 10

func (b *maskedBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 && b.err == nil {
		b.fill()
	}
	if len(b.out) == 0 {
		return 0, b.err
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// fill reads some more and judges what it can.
func (b *maskedBody) fill() {
	held := len(b.in)
	b.in = slices.Grow(b.in, maskChunk)
	n, err := b.ReadCloser.Read(b.in[held : held+maskChunk])
	b.in, b.err = b.in[:held+n], err
	for {
		at, length := b.first()
		if at < 0 {
			break
		}
		b.out = append(append(b.out, b.in[:at]...), masked...)
		b.in = b.in[at+length:]
	}
	keep := b.beginning()
	if b.err != nil {
		keep = 0
	}
	cut := len(b.in) - keep
	b.out = append(b.out, b.in[:cut]...)
	b.in = append([]byte(nil), b.in[cut:]...)
}

// first finds the first secret, of several at one place the longest; -1 when there is none. One that may go on to be a longer one is left
// until that is known.
func (b *maskedBody) first() (at, length int) {
	at = -1
	for _, s := range b.secrets {
		if i := bytes.Index(b.in, s); i >= 0 && (at < 0 || i < at) {
			at, length = i, len(s)
		}
	}
	if at >= 0 && b.err == nil && len(b.in)-at < len(b.secrets[0]) && len(b.in)-at <= b.beginning() {
		return -1, 0
	}
	return at, length
}

// beginning is the length of the longest tail of what is held that a secret begins with.
func (b *maskedBody) beginning() int {
	for n := min(len(b.in), len(b.secrets[0])-1); n > 0; n-- {
		tail := b.in[len(b.in)-n:]
		for _, s := range b.secrets {
			if len(s) > n && bytes.HasPrefix(s, tail) {
				return n
			}
		}
	}
	return 0
}
