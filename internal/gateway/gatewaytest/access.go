package gatewaytest

import (
	"context"
	"slices"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Credentials are principals by the bearer token or API key that each is known by, or by the common name of its certificate after "cn:".
type Credentials map[string]agent.Principal

// Authenticate implements [access.Authenticator].
func (c Credentials) Authenticate(_ context.Context, given access.Credentials) (agent.Principal, error) {
	for _, text := range []string{given.Bearer, given.Key} {
		if p, ok := c[text]; ok && text != "" {
			return p, nil
		}
	}
	if given.Given() {
		return agent.Principal{}, access.Refused("the credential is not valid")
	}
	for _, leaf := range given.Certificates {
		if p, ok := c["cn:"+leaf.Subject.CommonName]; ok {
			return p, nil
		}
	}
	return agent.Principal{}, access.Refused("the certificate is nobody's")
}

// Caller makes a principal of a tenant that may do what scopes allow.
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

// Records returns what was recorded.
func (t *Trail) Records() []agent.AuditRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.records)
}

// List implements [gateway.Audit]; of the filters it knows tenant, outcome and before.
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
