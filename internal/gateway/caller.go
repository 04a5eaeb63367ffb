package gateway

import (
	"cmp"
	"context"
	"maps"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// tenantKey is the HTTP header, and the gRPC metadata key, that names the tenant of a request. An EventSource cannot set headers and uses the
// query parameter "tenant".
const tenantKey = "Turnstone-Tenant"

// identity is the caller of a request and the tenant that the request is made for.
type identity struct {
	g         *Gateway
	principal agent.Principal // of the credential
	tenant    string          // set by inTenant; empty if a credential of every tenant names none
	action    agent.Action    // of the path or method, for audit records; see [requirement]
	// credentials identified the caller, and streams verify them again. They are nil without authentication and without a credential.
	credentials *access.Credentials
	anonymous   error  // why the caller may do nothing; nil for a caller with a valid credential
	door        string // http or grpc
	requestID   string
	remote      string
}

// identityKey is the key of the identity in a context.
type identityKey struct{}

func (c identity) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, c)
}

// methodUnknown is the method of a principal that may do nothing. Without a method it would be the runtime itself, which may do everything.
const methodUnknown = "unknown"

// callerOf returns the caller of a request. If a mistake of the gateway left the caller unidentified, it returns one who may do nothing.
func callerOf(ctx context.Context) identity {
	if c, ok := ctx.Value(identityKey{}).(identity); ok {
		return c
	}
	return identity{
		principal: agent.Principal{Method: methodUnknown}, anonymous: agent.Errorf(agent.CodeInternal, "", "the caller was not identified"),
	}
}

// inTenant returns the caller in the tenant that a request names. A credential of one tenant may name that tenant or none. A credential of
// every tenant may name any.
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

// refuseTenant audits that a credential of one tenant was used for another one, and returns the error.
func (c identity) refuseTenant(field, named string) error {
	c.audit(agent.AuditDenied, c.action, "tenant/"+named, nil)
	return agent.FieldErrorf(agent.CodeDenied, field, "is %.140q, but the credential is of tenant %q", named, c.principal.Tenant)
}

// allow returns nil if the caller may do a to a resource. Otherwise it audits the denial and returns it as an error.
func (c identity) allow(a agent.Action, resource string) error {
	if c.principal.May(a, resource) {
		return nil
	}
	c.audit(agent.AuditDenied, a, resource, nil)
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", a, resource)
}

// allowTurn is allow for a turn, whose resource is its agent. While the agent of a new turn is unknown, a caller who may do a to some agents
// only is told to try again.
func (c identity) allowTurn(a agent.Action, v *TurnView) error {
	name := v.Agent
	if name == "" && v.Output != nil {
		name = v.Output.Agent
	}
	if name == "" && v.Output == nil && c.principal.MayAny(a) && !c.principal.MayAll(a) && !c.principal.Trusted() {
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: newTurnTimeout, Err: errNewTurn}
	}
	return c.allow(a, name)
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

// noTenant is the tenant of a caller without a credential. It is not a valid name, so nothing can belong to it.
const noTenant = "?"

// setCaller sets tenant, user, role and flags of a request from the credential. The request keeps its user if the credential has no subject, and
// all four if there is no authentication.
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

// actor returns who makes a change: the owner of the credential or, without authentication, the name in the request.
func (c identity) actor(named string) string {
	if c.principal.Trusted() {
		return named
	}
	return c.principal.By()
}
