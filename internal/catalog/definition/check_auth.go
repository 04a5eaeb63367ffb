package definition

import (
	"net/netip"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// authFields are the fields that a type of auth profile must and may have.
func authFields(t agent.AuthType) (required, optional []string) {
	switch t {
	case agent.AuthBearer:
		return []string{"secret"}, nil
	case agent.AuthAPIKey:
		return []string{"secret"}, []string{"header", "query"}
	case agent.AuthBasic:
		return []string{"username", "password"}, nil
	case agent.AuthOAuth2:
		return []string{"client_id", "client_secret"}, []string{"token_url", "issuer", "scopes"}
	default:
		return nil, nil
	}
}

// auth never repeats a value: each may be a secret.
func (d *document) auth(a *agent.AuthProfile) {
	if a.Type != "" {
		d.authType(a.Type)
	}
	if a.Type == agent.AuthAPIKey {
		header, query := d.root.member("header") != nil, d.root.member("query") != nil
		switch {
		case header && query:
			d.fault("query", "want header or query, not both")
		case !header && !query:
			d.fault("header", "is required for type api_key, or query")
		}
	}
	if a.Type == agent.AuthOAuth2 {
		tokenURL, issuer := d.root.member("token_url") != nil, d.root.member("issuer") != nil
		switch {
		case tokenURL && issuer:
			d.fault("issuer", "want token_url or issuer, not both")
		case !tokenURL && !issuer:
			d.fault("token_url", "is required for type oauth2_client_credentials, or issuer")
		}
	}
	d.reference("secret", a.Secret)
	d.reference("password", a.Password)
	d.reference("client_secret", a.ClientSecret)
	switch textproto.CanonicalMIMEHeaderKey(a.Header) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Te":
		d.fault("header", "is a header that the protocol itself sets")
	}
	if strings.ContainsFunc(a.Username, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
		d.fault("username", "must not hold a colon or a control character")
	}
	d.tokenURL("token_url", a.TokenURL)
	d.tokenURL("issuer", a.Issuer)
	d.unique("scopes", a.Scopes)
	d.unique("hosts", a.Hosts)
	for i, host := range a.Hosts {
		if host != "" && !hostRule(host) {
			d.fault(item("hosts", i), "want a host or *.host, with or without :port; no scheme, no path")
		}
	}
}

func (d *document) authType(t agent.AuthType) {
	required, optional := authFields(t)
	for _, name := range []string{"secret", "header", "query", "username", "password", "client_id", "client_secret", "token_url", "issuer", "scopes"} {
		given := d.root.member(name) != nil
		switch {
		case slices.Contains(required, name):
			if !given {
				d.fault(name, "is required for type %s", t)
			}
		case given && !slices.Contains(optional, name):
			d.fault(name, "does not belong to type %s", t)
		}
	}
}

// reference completes what the schema says of env:NAME and file:/path.
func (d *document) reference(field, ref string) {
	file, ok := strings.CutPrefix(ref, "file:")
	if ok && (path.Clean(file) != file || file == "/") {
		d.fault(field, "want file: with the absolute path of a file, without . and ..")
	}
}

// tokenURL wants https, or http for this machine: what is sent there, or where it leads to, carries the client's secret.
func (d *document) tokenURL(field, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		d.fault(field, "want an https URL")
	case u.User != nil:
		d.fault(field, "must not hold credentials: client_id and client_secret are for these")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		d.fault(field, "want https; http is for this machine alone")
	default:
		d.bare(field, text)
	}
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}
