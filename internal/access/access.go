// Package access finds out who calls: it makes an [agent.Principal] of credentials. [New] joins the verifiers of package credentials. What a
// principal may do is answered by [agent.Principal.May], which the gateway asks.
package access

import (
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

// Credentials are what a caller sent of itself.
type Credentials struct {
	Bearer       string              // of the header Authorization, see [Bearer]; empty: none
	Key          string              // of the header X-API-Key; empty: none
	Certificates []*x509.Certificate // the leaf of each chain that the TLS layer has verified
}

// Given reports whether there is anything that could say who calls. A certificate alone may be no more than a way to connect.
func (c *Credentials) Given() bool { return c.Bearer != "" || c.Key != "" }

// Authenticator finds the principal behind credentials. The error is [agent.CodeUnauthenticated] if there are none or they are not valid; its
// message tells a caller what to correct, and nothing about which credentials exist. It is [agent.CodeUnavailable] if they cannot be checked now.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (agent.Principal, error)
}

// Verifier makes a principal of one kind of text: API keys, or tokens of issuers. Its errors are as [Authenticator]'s.
type Verifier interface {
	Verify(ctx context.Context, text string) (agent.Principal, error)
}

// Certificates knows the holders of certificates.
type Certificates interface {
	Holder(leaf *x509.Certificate) (p agent.Principal, known bool)
}

// Config says what is accepted; at least one of it.
type Config struct {
	Keys         Verifier     // nil: no API keys
	OperatorKey  string       // allows everything, for every tenant; empty: there is none
	Tokens       Verifier     // nil: no tokens
	Certificates Certificates // nil: no certificates
}

// OperatorCredential is the operator key's name in the audit trail.
const OperatorCredential = "operator"

// maxCertificates bounds how many chains of one connection are looked at.
const maxCertificates = 8

// methods are the ways of authentication that are configured.
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

// Authenticate implements [Authenticator]. Where there are several credentials each must hold, and they must name the same tenant and user.
func (m *methods) Authenticate(ctx context.Context, c Credentials) (agent.Principal, error) {
	if c.Bearer != "" && c.Key != "" && c.Bearer != c.Key {
		return agent.Principal{}, Refused("there are two credentials that differ: send Authorization or X-API-Key")
	}
	holder, known := m.holder(c.Certificates)
	switch {
	case c.Given():
		p, err := m.text(ctx, c)
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

// text verifies what was sent as text.
func (m *methods) text(ctx context.Context, c Credentials) (agent.Principal, error) {
	given := c.Bearer
	if given == "" {
		given = c.Key
	}
	if len(given) > MaxCredential {
		return agent.Principal{}, Refused("the credential is longer than %d bytes", MaxCredential)
	}
	// Of both the digest, so that the time it takes depends on neither's length.
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

func (m *methods) holder(leafs []*x509.Certificate) (p agent.Principal, known bool) {
	if m.cfg.Certificates == nil {
		return p, false
	}
	for _, leaf := range leafs[:min(len(leafs), maxCertificates)] {
		if time.Now().After(leaf.NotAfter) { // it held when the connection was opened, which may be long ago
			continue
		}
		if p, known = m.cfg.Certificates.Holder(leaf); known {
			return p, true
		}
	}
	return agent.Principal{}, false
}
