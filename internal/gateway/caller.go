package gateway

import (
	"cmp"
	"context"
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/turnstone-run/turnstone/agent"
)

// tenantKey names the tenant of a request that has no body to say it: the HTTP header, the gRPC metadata key, and (as "tenant")
// the query parameter, for an EventSource cannot set headers.
const tenantKey = "Turnstone-Tenant"

// identity is who calls. There is no authentication yet, so it is what the request says of itself; credentials plug in at [caller]
// and [grpcCaller].
type identity struct {
	tenant    string          // empty when the request named none
	principal agent.Principal // by which credential
}

// may returns a denied error unless the caller may do a to a resource.
func (c identity) may(a agent.Action, resource string) error {
	if c.principal.May(a, resource) {
		return nil
	}
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", a, resource)
}

// caller names who sent an HTTP request.
func caller(r *http.Request) (identity, error) {
	return namedTenant(cmp.Or(r.Header.Get(tenantKey), r.URL.Query().Get("tenant")))
}

// headerCaller is caller for the paths on which the query says what is asked for, and not who asks.
func headerCaller(r *http.Request) (identity, error) { return namedTenant(r.Header.Get(tenantKey)) }

// grpcCaller names who sent a gRPC call.
func grpcCaller(ctx context.Context) (identity, error) {
	if values := metadata.ValueFromIncomingContext(ctx, tenantKey); len(values) > 0 {
		return namedTenant(values[0])
	}
	return namedTenant("")
}

func namedTenant(tenant string) (identity, error) {
	if tenant != "" && !agent.ValidName(tenant) {
		return identity{}, agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return identity{tenant: tenant, principal: agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant}}, nil
}

// lookup is the tenant in which the caller may see turns and results by their ids.
func (c identity) lookup() string { return cmp.Or(c.tenant, AnyTenant) }

// own is the tenant whose sessions and agents the caller sees.
func (c identity) own() string { return cmp.Or(c.tenant, agent.DefaultTenant) }

// sign puts the caller into a request. While there is no authentication the body may name its tenant; a body and a header that
// disagree are refused.
func (c identity) sign(r *agent.TurnRequest) error {
	if c.tenant != "" && r.Context.Tenant != "" && c.tenant != r.Context.Tenant {
		return agent.Invalid("context.tenant", "is %q, but the request is made for tenant %q", r.Context.Tenant, c.tenant)
	}
	r.Context.Tenant = cmp.Or(r.Context.Tenant, c.own())
	return nil
}
