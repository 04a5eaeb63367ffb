package egress

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
)

const (
	// minSecret is the number of bytes below which a credential is not masked in responses: it would be found by chance.
	minSecret = 4
	masked    = "[redacted]"
)

// secretsOf returns the values of a request's credentials.
func secretsOf(ctx context.Context, req *http.Request) []string {
	c, _ := ctx.Value(credentialsKey{}).(Credentials)
	var values []string
	for _, name := range c.Headers {
		for _, v := range req.Header.Values(name) {
			values = append(values, secretsOfHeader(name, v)...)
		}
	}
	query := req.URL.Query()
	for _, name := range c.Query {
		values = append(values, query[name]...)
	}
	return slices.DeleteFunc(values, func(v string) bool { return len(v) < minSecret })
}

// secretsOfHeader returns the secrets in the value of a header: each cookie, what follows the scheme of Authorization, or else all of it.
func secretsOfHeader(name, value string) []string {
	var secrets []string
	if strings.EqualFold(name, "Cookie") {
		for cookie := range strings.SplitSeq(value, ";") {
			cookie = strings.TrimSpace(cookie)
			_, secret, _ := strings.Cut(cookie, "=")
			secrets = append(secrets, cookie, secret)
		}
		return secrets
	}
	scheme, credentials, hasScheme := strings.Cut(value, " ")
	if !hasScheme || !strings.EqualFold(name, "Authorization") {
		secrets = append(secrets, value)
	}
	if hasScheme {
		secrets = append(secrets, credentials)
	}
	if decoded, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(decoded), ":")
		secrets = append(secrets, password)
	}
	return secrets
}

// maskCredentials masks the credentials of a request that the server repeats in the headers and the body of its response, so that no tool
// or model sees them.
func maskCredentials(resp *http.Response, secrets []string) {
	if len(secrets) == 0 {
		return
	}
	m := NewMasker(secrets...)
	for _, values := range resp.Header {
		for i := range values {
			values[i] = string(m.Mask([]byte(values[i])))
		}
	}
	resp.Body = &maskedBody{ReadCloser: resp.Body, masker: m}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// maskedBody masks secrets in a body. It holds back the end of what it has read while that may be the beginning of a secret.
type maskedBody struct {
	io.ReadCloser

	masker *Masker
	in     []byte // read, not yet masked
	out    []byte // masked, not yet returned
	err    error  // the first error of the body
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

// fill reads a part of the body and masks what it can.
func (b *maskedBody) fill() {
	held := len(b.in)
	b.in = slices.Grow(b.in, maskChunk)
	n, err := b.ReadCloser.Read(b.in[held : held+maskChunk])
	b.err = err
	var tail []byte
	b.out, tail = b.masker.mask(b.out, b.in[:held+n], err != nil)
	b.in = append(b.in[:0], tail...)
}
