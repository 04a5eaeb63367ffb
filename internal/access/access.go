// Package access finds out who calls: it makes an [agent.Principal] of credentials. [New] joins the verifiers of package credentials. What a
// principal may do is answered by [agent.Principal.May], which the gateway asks.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Credentials are what a caller sent to identify itself.
type Credentials struct {
	Bearer       string              // of the header Authorization, see [Bearer]; empty: none
	Key          string              // of the header X-API-Key; empty: none
	Certificates []*x509.Certificate // the leaf of each chain that the TLS layer has verified
}

// Given reports whether the caller sent a token or a key. A certificate alone may only be its means to connect.
func (c *Credentials) Given() bool { return c.Bearer != "" || c.Key != "" }

// Authenticator finds the principal behind credentials. The error is [agent.CodeUnauthenticated] if there are none or they are not valid; its
// message tells a caller what to correct, and nothing about which credentials exist. It is [agent.CodeUnavailable] if they cannot be checked now.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (agent.Principal, error)
}

// Verifier finds the principal behind one kind of text: API keys, or tokens of issuers. Its errors are those of [Authenticator].
type Verifier interface {
	Verify(ctx context.Context, text string) (agent.Principal, error)
}

// Certificates finds the holders of client certificates.
type Certificates interface {
	Holder(leaf *x509.Certificate) (p agent.Principal, known bool)
}

// Config has the kinds of credentials that are accepted, at least one.
type Config struct {
	Keys         Verifier     // nil: no API keys
	OperatorKey  string       // allows everything, for every tenant; empty: there is none
	Tokens       Verifier     // nil: no tokens
	Certificates Certificates // nil: no certificates
}

// OperatorCredential is the name of the operator key in the audit trail.
const OperatorCredential = "operator"

// maxCertificates bounds the chains of a connection that are looked at.
const maxCertificates = 8

// methods are the configured ways of authentication.
type methods struct {
	cfg      Config
	operator [sha256.Size]byte
}

// New returns an authenticator of everything that is configured.
func New(cfg Config) (Authenticator, error) {
	if cfg.Keys == nil && cfg.OperatorKey == "" && cfg.Tokens == nil && cfg.Certificates == nil {
		return nil, errors.New("configure access: nothing is accepted")
	}
	if n := len(cfg.OperatorKey); n > MaxCredential {
		return nil, fmt.Errorf("configure access: the operator key has %d characters, at most %d", n, MaxCredential)
	}
	return &methods{cfg: cfg, operator: sha256.Sum256([]byte(cfg.OperatorKey))}, nil
}

// Authenticate implements [Authenticator]. If there are several credentials, each must be valid, and they must name the same tenant and user.
func (m *methods) Authenticate(ctx context.Context, c Credentials) (agent.Principal, error) {
	if c.Bearer != "" && c.Key != "" && c.Bearer != c.Key {
		return agent.Principal{}, Refused("there are two credentials that differ: send Authorization or X-API-Key")
	}
	holder, known := m.findHolder(c.Certificates)
	switch {
	case c.Given():
		p, err := m.verifyText(ctx, c)
		if err == nil && known && (holder.Tenant != p.Tenant || holder.Subject != p.Subject) {
			return agent.Principal{}, Refused("the client certificate and the other credential belong to different callers")
		}
		return p, err
	case known:
		return holder, nil
	case len(c.Certificates) > 0 && m.cfg.Certificates != nil:
		return agent.Principal{}, Refused("the client certificate is nobody's who is known here")
	default:
		return agent.Principal{}, Refused("a credential is missing: send the header Authorization: Bearer with an API key or a token")
	}
}

// verifyText verifies a token or a key.
func (m *methods) verifyText(ctx context.Context, c Credentials) (agent.Principal, error) {
	given := cmp.Or(c.Bearer, c.Key)
	if len(given) > MaxCredential {
		return agent.Principal{}, Refused("the credential is longer than %d bytes", MaxCredential)
	}
	// Digests are compared, so that the time does not depend on a length.
	digest := sha256.Sum256([]byte(given))
	switch operator := subtle.ConstantTimeCompare(digest[:], m.operator[:]) == 1; {
	case operator && m.cfg.OperatorKey != "":
		return agent.Principal{
			Method: agent.MethodKey, Tenant: agent.AnyTenant, Scopes: []string{"*"}, Credential: OperatorCredential,
		}, nil
	case strings.HasPrefix(given, KeyPrefix) && m.cfg.Keys != nil:
		return m.cfg.Keys.Verify(ctx, given)
	case c.Bearer != "" && strings.Count(given, ".") == 2 && m.cfg.Tokens != nil:
		return m.cfg.Tokens.Verify(ctx, given)
	default:
		return agent.Principal{}, Refused("the credential is none that is accepted here")
	}
}

// findHolder returns the holder of the first certificate that is known and has not expired.
func (m *methods) findHolder(leafs []*x509.Certificate) (p agent.Principal, known bool) {
	if m.cfg.Certificates == nil {
		return p, false
	}
	for _, leaf := range leafs[:min(len(leafs), maxCertificates)] {
		if time.Now().After(leaf.NotAfter) { // it was valid when the connection was opened, which may be long ago
			continue
		}
		if p, known = m.cfg.Certificates.Holder(leaf); known {
			return p, true
		}
	}
	return agent.Principal{}, false
}
