package credentials

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// CertificateHolder is the client behind a certificate.
type CertificateHolder struct {
	Name   string // a URI, DNS name or email address of the certificate, else its common name
	Tenant string // [agent.AnyTenant]: every one
	User   string // empty: nobody's own
	Role   string
	Scopes []string
}

// Certificates finds the holders of client certificates by name.
type Certificates struct {
	byName map[string]agent.Principal
}

// NewCertificates checks the clients and reports every fault.
func NewCertificates(clients []CertificateHolder) (*Certificates, error) {
	h := &Certificates{byName: make(map[string]agent.Principal, len(clients))}
	var faults []error
	for i := range clients {
		c := &clients[i]
		_, twice := h.byName[c.Name]
		switch {
		case c.Name == "":
			faults = append(faults, fmt.Errorf("certificate %d: name is empty", i+1))
		case twice:
			faults = append(faults, fmt.Errorf("certificate %q is there twice", c.Name))
		case c.Tenant != agent.AnyTenant && !agent.ValidName(c.Tenant):
			faults = append(faults, fmt.Errorf("certificate %q: tenant %q is no name", c.Name, c.Tenant))
		}
		for _, scope := range c.Scopes {
			if !access.ValidScope(scope) {
				faults = append(faults, fmt.Errorf("certificate %q: scope %q allows nothing that there is", c.Name, scope))
			}
		}
		h.byName[c.Name] = agent.Principal{
			Method: agent.MethodMTLS, Tenant: c.Tenant, Subject: c.User, Role: c.Role, Scopes: c.Scopes, Credential: "certificate/" + c.Name,
		}
	}
	return h, errors.Join(faults...)
}

// Holder returns the holder of a certificate that the TLS layer has verified. It looks for the certificate's URIs, DNS names and email addresses, and
// for its common name only if it has none of these.
func (h *Certificates) Holder(leaf *x509.Certificate) (p agent.Principal, known bool) {
	var names []string
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	names = append(names, leaf.DNSNames...)
	names = append(names, leaf.EmailAddresses...)
	if len(names) == 0 {
		names = []string{leaf.Subject.CommonName}
	}
	for _, name := range names {
		if p, known = h.byName[name]; known && name != "" {
			return p, true
		}
	}
	return agent.Principal{}, false
}
