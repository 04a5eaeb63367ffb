package egress

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// minSecret is the length in bytes from which a credential is masked in responses. A shorter one would match other text by chance.
const minSecret = 4

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

// secretsOfHeader returns the secrets in the value of a header: each cookie, the credentials of Authorization, or the whole value of another header.
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

// maskCredentials masks the secrets in the headers and the body of a response, so that no tool or model sees them.
func maskCredentials(resp *http.Response, secrets []string) {
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
