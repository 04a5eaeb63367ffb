package gateway

import (
	"cmp"
	"context"
	"maps"
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// tenantKey names the tenant of a request that has no body to say it: the HTTP header, the gRPC metadata key, and (as "tenant")
// the query parameter, for an EventSource cannot set headers.
const tenantKey = "Turnstone-Tenant"

// identity is who calls, as [Gateway.identify] found out at the outside, and for which tenant, as [identity.in] puts in.
type identity struct {
	g         *Gateway
	principal agent.Principal // by which credential
	tenant    string          // empty when the request named none, and the credential is of every tenant
	action    agent.Action    // what the path or the method is for, as its [need] says
	// credentials are what the caller was identified by, for streams that last; nil where there is no authentication, or no credential.
	credentials *access.Credentials
	anonymous   error  // set where there is no credential and one is wanted: why nothing is allowed
	door        string // http or grpc
	requestID   string
	remote      string
}

// identityKey is where a context has the identity.
type identityKey struct{}

func (c identity) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, c)
}

// callerOf returns who calls. That nobody was identified is our own fault, and nobody is let in by it.
func callerOf(ctx context.Context) (identity, error) {
	if c, ok := ctx.Value(identityKey{}).(identity); ok {
		return c, nil
	}
	return identity{}, agent.Errorf(agent.CodeInternal, "", "the caller was not identified")
}

// in puts the caller into the tenant that a request names: the credential's, which need not be named, or any where it is of every tenant.
func (c identity) in(named string) (identity, error) {
	switch {
	case named != "" && !agent.ValidName(named):
		return identity{}, agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case !c.confined():
		c.tenant = named
		return c, nil
	case named != "" && named != c.principal.Tenant:
		return identity{}, c.foreign("tenant", named)
	}
	c.tenant = c.principal.Tenant
	return c, nil
}

// confined reports whether the credential is of one tenant.
func (c identity) confined() bool { return c.principal.Tenant != agent.AnyTenant }

// foreign refuses, and notes, that a credential of one tenant was used for another.
func (c identity) foreign(field, named string) error {
	c.note(agent.AuditDenied, c.action, "tenant/"+named, nil)
	return agent.FieldErrorf(agent.CodeDenied, field, "is %.140q, but the credential is of tenant %q", named, c.principal.Tenant)
}

// may returns a denied error, and notes it, unless the caller may do a to a resource.
func (c identity) may(a agent.Action, resource string) error {
	if c.principal.May(a, resource) {
		return nil
	}
	c.note(agent.AuditDenied, a, resource, nil)
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", a, resource)
}

// mayTurn is may for a turn, whose resource is its agent. Of one that began a moment ago the agent may not be known yet, and a credential
// that is confined to agents has to wait for it.
func (c identity) mayTurn(a agent.Action, v *TurnView) error {
	name := v.Agent
	if name == "" && v.Output != nil {
		name = v.Output.Agent
	}
	if name == "" && v.Output == nil && c.principal.MayAny(a) && !c.principal.MayAll(a) && !c.principal.Trusted() {
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: beginning, Err: errBeginning}
	}
	return c.may(a, name)
}

// headerCaller is caller for the paths on which the query says what is asked for, and not who asks.
func readHeaderCaller(r *http.Request) (identity, error) {
	return callerIn(r.Context(), r.Header.Get(tenantKey))
}

// grpcCaller names who sent a gRPC call, and for which tenant.
func grpcCaller(ctx context.Context) (identity, error) {
	named := ""
	if values := metadata.ValueFromIncomingContext(ctx, tenantKey); len(values) > 0 {
		named = values[0]
	}
	return callerIn(ctx, named)
}

func callerIn(ctx context.Context, tenant string) (identity, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return c, err
	}
	return c.in(tenant)
}

// lookup is the tenant in which the caller may see turns and results by their ids.
func (c identity) lookup() string {
	if c.tenant == "" && !c.confined() {
		return AnyTenant
	}
	return c.own()
}

// own is the tenant whose sessions and agents the caller sees.
func (c identity) own() string {
	if c.tenant == "" && c.confined() {
		return nobodys
	}
	return cmp.Or(c.tenant, agent.DefaultTenant)
}

// nobodys is the tenant of a caller without a credential. It has no valid shape, so that nothing is ever found in it.
const nobodys = "?"

// sign puts the caller into a request: what a credential says, the body does not. Where a credential is nobody's own, the body may name
// the user; where there is no authentication, everything.
func (c identity) sign(r *agent.TurnRequest) error {
	if err := c.ownTenant(r.Context.Tenant, "context.tenant"); err != nil {
		return err
	}
	r.Context.Tenant = cmp.Or(r.Context.Tenant, c.own())
	c.vouch(&r.Context)
	return nil
}

// ownTenant refuses a tenant of a body that is not the request's.
func (c identity) ownTenant(named, field string) error {
	switch {
	case named == "" || c.tenant == "" || c.tenant == named:
		return nil
	case c.confined():
		return c.foreign(field, named)
	default:
		return agent.Invalid(field, "is %.140q, but the request is made for tenant %q", named, c.tenant)
	}
}

// vouch puts user, role and flags of the credential into a context.
func (c identity) vouch(ctx *agent.InvocationContext) {
	if c.principal.Trusted() {
		return
	}
	ctx.UserID = cmp.Or(c.principal.Subject, ctx.UserID)
	ctx.UserRole, ctx.Flags = c.principal.Role, maps.Clone(c.principal.Flags)
}

// by is who did something: the credential's word where there is one, else what the request says.
func (c identity) by(said string) string {
	if c.principal.Trusted() {
		return said
	}
	return c.principal.By()
}
