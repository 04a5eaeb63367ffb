package gatewaytest

import (
	"context"
	"slices"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Credentials are principals by their bearer token or API key, or by "cn:" and the common name of their certificate.
type Credentials map[string]agent.Principal

// Authenticate implements [access.Authenticator].
func (c Credentials) Authenticate(_ context.Context, sent access.Credentials) (agent.Principal, error) {
	for _, text := range []string{sent.Bearer, sent.Key} {
		if p, ok := c[text]; ok && text != "" {
			return p, nil
		}
	}
	if sent.Given() {
		return agent.Principal{}, access.Refused("the credential is not valid")
	}
	for _, leaf := range sent.Certificates {
		if p, ok := c["cn:"+leaf.Subject.CommonName]; ok {
			return p, nil
		}
	}
	return agent.Principal{}, access.Refused("the certificate is not known")
}

// Caller returns a principal with an API key.
func Caller(tenant, subject string, scopes ...string) agent.Principal {
	return agent.Principal{Method: agent.MethodKey, Tenant: tenant, Subject: subject, Scopes: scopes, Credential: "key/" + tenant + "-" + subject}
}

// Trail is an audit trail in memory.
type Trail struct {
	mu      sync.Mutex
	records []agent.AuditRecord
}

// Record implements [gateway.Audit].
func (t *Trail) Record(r agent.AuditRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.ID = int64(len(t.records) + 1)
	t.records = append(t.records, r)
}

// Records returns all records.
func (t *Trail) Records() []agent.AuditRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.records)
}

// List implements [gateway.Audit]. It knows the filters tenant, outcome and before.
func (t *Trail) List(_ context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	var page agent.AuditPage
	for _, r := range slices.Backward(t.Records()) {
		switch {
		case q.Tenant != agent.AnyTenant && q.Tenant != r.Tenant, q.Outcome != "" && q.Outcome != r.Outcome, q.Before > 0 && r.ID >= q.Before:
			continue
		}
		if q.Limit > 0 && len(page.Records) == q.Limit {
			page.Next = page.Records[q.Limit-1].ID
			break
		}
		page.Records = append(page.Records, r)
	}
	return page, nil
}
