package egress

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// secretsOf are the values of a request's credentials.
func secretsOf(ctx context.Context, req *http.Request) []string {
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
	return slices.DeleteFunc(values, func(v string) bool { return len(v) < redact.ShortestSecret })
}

// unecho keeps a server from telling a tool, and with it a model, the credentials that it was sent: what it repeats of them in its
// headers and its body is masked.
func unecho(resp *http.Response, secrets []string) {
	if len(secrets) == 0 {
		return
	}
	m := redact.NewMasker(secrets...)
	for _, values := range resp.Header {
		for i := range values {
			values[i] = string(m.Mask([]byte(values[i])))
		}
	}
	resp.Body = redact.NewReader(resp.Body, m)
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}
