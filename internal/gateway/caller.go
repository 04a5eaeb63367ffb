package gateway

import (
	"cmp"
	"context"
	"maps"

	"google.golang.org/grpc/metadata"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// tenantKey is the HTTP header and the gRPC metadata key that names the tenant of a request. The query parameter "tenant" is for an
// EventSource, which cannot set headers.
const tenantKey = "Turnstone-Tenant"

// identity is the caller of a request, as [Gateway.identify] found it, and the tenant of the request, as [identity.inTenant] set it.
type identity struct {
	g         *Gateway
	principal agent.Principal // of the credential
	tenant    string          // empty if the request named none, and the credential is of every tenant
	action    agent.Action    // of the path or method, for audit records; see [requirement]
	// credentials identified the caller. Streams verify them again. nil without authentication, or without a credential.
	credentials *access.Credentials
	anonymous   error  // why nothing is allowed, if a credential is required and missing
	door        string // http or grpc
	requestID   string
	remote      string
}

// identityKey is where a context has the identity.
type identityKey struct{}

func (c identity) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, c)
}

// callerOf returns the caller. It is an internal error if none was identified, so that a mistake lets nobody in.
func callerOf(ctx context.Context) (identity, error) {
	if c, ok := ctx.Value(identityKey{}).(identity); ok {
		return c, nil
	}
	return identity{}, agent.Errorf(agent.CodeInternal, "", "the caller was not identified")
}

// inTenant returns the caller in the tenant that a request names. A credential of one tenant may name that one or none; a credential of every
// tenant may name any.
func (c identity) inTenant(named string) (identity, error) {
	switch {
	case named != "" && !agent.ValidName(named):
		return identity{}, agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case !c.isOfOneTenant():
		c.tenant = named
		return c, nil
	case named != "" && named != c.principal.Tenant:
		return identity{}, c.refuseTenant("tenant", named)
	}
	c.tenant = c.principal.Tenant
	return c, nil
}

// isOfOneTenant reports whether the credential is confined to one tenant.
func (c identity) isOfOneTenant() bool { return c.principal.Tenant != agent.AnyTenant }

// refuseTenant returns and audits the error that a credential of one tenant was used for another.
func (c identity) refuseTenant(field, named string) error {
	c.audit(agent.AuditDenied, c.action, "tenant/"+named, nil)
	return agent.FieldErrorf(agent.CodeDenied, field, "is %.140q, but the credential is of tenant %q", named, c.principal.Tenant)
}

// allow returns nil if the caller may do a to a resource. Otherwise it audits and returns the denial.
func (c identity) allow(a agent.Action, resource string) error {
	if c.principal.May(a, resource) {
		return nil
	}
	c.audit(agent.AuditDenied, a, resource, nil)
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", a, resource)
}

// allowTurn is allow for a turn, whose resource is its agent. The agent of a turn that has just begun may not be known yet; a credential that is
// confined to agents has to try again then.
func (c identity) allowTurn(a agent.Action, v *TurnView) error {
	name := v.Agent
	if name == "" && v.Output != nil {
		name = v.Output.Agent
	}
	if name == "" && v.Output == nil && c.principal.MayAny(a) && !c.principal.MayAll(a) && !c.principal.Trusted() {
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: beginning, Err: errBeginning}
	}
	return c.allow(a, name)
}

// grpcCaller returns the caller of a gRPC call, in the tenant that its metadata names.
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
	return c.inTenant(tenant)
}

// lookupTenant returns the tenant in which the caller may look up turns and results by id.
func (c identity) lookupTenant() string {
	if c.tenant == "" && !c.isOfOneTenant() {
		return agent.AnyTenant
	}
	return c.ownTenant()
}

// ownTenant returns the tenant whose sessions and agents the caller sees.
func (c identity) ownTenant() string {
	if c.tenant == "" && c.isOfOneTenant() {
		return noTenant
	}
	return cmp.Or(c.tenant, agent.DefaultTenant)
}

// noTenant is the tenant of a caller without a credential. It is no valid name, so nothing is ever found in it.
const noTenant = "?"

// setCaller sets tenant, user, role and flags of a request from the credential. The body may name the user if the credential has no subject, and
// all of them if there is no authentication.
func (c identity) setCaller(r *agent.TurnRequest) error {
	if err := c.checkTenant(r.Context.Tenant, "context.tenant"); err != nil {
		return err
	}
	r.Context.Tenant = cmp.Or(r.Context.Tenant, c.ownTenant())
	c.setUser(&r.Context)
	return nil
}

// checkTenant refuses a tenant in the body that is not the tenant of the request.
func (c identity) checkTenant(named, field string) error {
	switch {
	case named == "" || c.tenant == "" || c.tenant == named:
		return nil
	case c.isOfOneTenant():
		return c.refuseTenant(field, named)
	default:
		return agent.Invalid(field, "is %.140q, but the request is made for tenant %q", named, c.tenant)
	}
}

// setUser sets user, role and flags of a context from the credential.
func (c identity) setUser(ctx *agent.InvocationContext) {
	if c.principal.Trusted() {
		return
	}
	ctx.UserID = cmp.Or(c.principal.Subject, ctx.UserID)
	ctx.UserRole, ctx.Flags = c.principal.Role, maps.Clone(c.principal.Flags)
}

// actor returns who did something: by the credential, or as the request names it if there is no authentication.
func (c identity) actor(named string) string {
	if c.principal.Trusted() {
		return named
	}
	return c.principal.By()
}
