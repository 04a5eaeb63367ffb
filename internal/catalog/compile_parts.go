package catalog

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// addModels adds the agent's model profiles; an agent that names none has those of the configuration.
func (c *compiler) addModels() {
	if len(c.in.models) == 0 {
		c.addFault("models", "is empty, and the configuration names no model")
	}
	for i, ref := range c.in.models {
		path := fmt.Sprintf("models[%d]", i)
		if ref.entry == nil {
			c.addFault(path, "there is no model profile %q", ref.name)
			continue
		}
		m, ok := c.planModel(&ref, path)
		if !ok {
			continue
		}
		m.Temperature = cmp.Or(c.temperature, m.Temperature)
		m.MaxTokens = cmp.Or(c.maxTokens, m.MaxTokens)
		if c.parts.invokesTools(ref.entry) {
			c.selfInvoking = append(c.selfInvoking, selfInvoking{path, m.Profile})
		}
		c.plan.Models = append(c.plan.Models, m)
	}
}

// planModel returns the model of a profile with its price and auth profile; false after a fault.
func (c *compiler) planModel(ref *reference, path string) (agent.PlanModel, bool) {
	p, _ := ref.entry.parsed.Value.(*agent.ModelProfile)
	m := c.parts.modelWithoutAuth(ref.entry)
	price := c.parts.price(p, ref.priced)
	m.InputPerMTok, m.CachedPerMTok, m.OutputPerMTok = price.InputPerMTok, price.CachedPerMTok, price.OutputPerMTok
	for _, a := range ref.auth {
		auth, ok := c.planAuth(&a, path)
		if !ok {
			return m, false
		}
		if auth.Type != agent.AuthBearer && auth.Type != agent.AuthAPIKey {
			c.addFault(path, "model profile %q uses auth profile %q of type %s, want bearer or api_key", p.Name, p.Auth, auth.Type)
			return m, false
		}
		if sharedKeyLeaves(ref.entry, a.entry) {
			c.addFault(path, "model profile %q: %s", p.Name, sharedKeyFault(auth.Name))
			return m, false
		}
		m.Auth = &auth
	}
	return m, true
}

// sharedKeyLeaves reports whether a tenant's own model profile would send a shared key to an address of the tenant's choice. Auth profiles
// that list hosts are safe: the hosts are checked when the key is used.
func sharedKeyLeaves(model, auth *entry) bool {
	m, isModel := model.parsed.Value.(*agent.ModelProfile)
	a, isAuth := auth.parsed.Value.(*agent.AuthProfile)
	return isModel && isAuth && auth.doc.Tenant == agent.SharedTenant && model.doc.Tenant != agent.SharedTenant && m.BaseURL != "" && len(a.Hosts) == 0
}

func sharedKeyFault(auth string) string {
	return fmt.Sprintf("auth profile %q is shared and lists no hosts: it is not sent to the base_url of a tenant's own profile", auth)
}

// modelWithoutAuth returns the model of a profile, without its auth profile and price.
func (p *Parts) modelWithoutAuth(e *entry) agent.PlanModel {
	v, _ := e.parsed.Value.(*agent.ModelProfile)
	m := agent.PlanModel{
		Profile: v.Name, Provider: v.Provider, Model: v.Model, BaseURL: v.BaseURL, Temperature: v.Temperature, MaxTokens: v.MaxTokens,
		TimeoutSec: v.TimeoutSec, ContextTokens: v.ContextTokens,
	}
	if e.doc.Source == agent.SourceConfig { // the provider's entry in the configuration has the address and the key
		m.Provider, m.BaseURL = p.providers[v.Name], ""
	}
	return m
}

// planAuth returns the auth profile of a reference, with references to secrets; false after a fault.
func (c *compiler) planAuth(ref *reference, path string) (agent.PlanAuth, bool) {
	if ref.entry == nil {
		c.addFault(path, "there is no auth profile %q", ref.name)
		return agent.PlanAuth{}, false
	}
	a, _ := ref.entry.parsed.Value.(*agent.AuthProfile)
	return agent.PlanAuth{
		Tenant: ref.entry.doc.Tenant, Name: a.Name, Type: a.Type, Secret: a.Secret, Header: a.Header, Query: a.Query, Username: a.Username, Password: a.Password,
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, TokenURL: a.TokenURL, Issuer: a.Issuer, Scopes: a.Scopes, Hosts: a.Hosts,
	}, true
}

// addMiddleware adds the middleware of the node, outermost, and then that of the agent.
func (c *compiler) addMiddleware() {
	if c.in.node != nil {
		for _, m := range c.in.node.node().Middleware {
			c.addLayer(m, "node_id")
		}
	}
	for i, m := range c.inst.Middleware {
		c.addLayer(m, fmt.Sprintf("middleware[%d]", i))
	}
}

func (c *compiler) addLayer(m agent.PlanMiddleware, path string) {
	if m.Name != wildcard {
		if c.checkLayer(m, &c.plan, path) {
			c.plan.Middleware = append(c.plan.Middleware, m)
		}
		return
	}
	for _, name := range c.parts.Middleware.Added() {
		if c.checkLayerName(name, path) {
			c.plan.Middleware = append(c.plan.Middleware, agent.PlanMiddleware{Name: name})
		}
	}
}

// checkLayer reports whether middleware can be part of a plan, any plan if plan is nil. Otherwise it adds a fault.
func (c *compiler) checkLayer(m agent.PlanMiddleware, plan *agent.Plan, path string) bool {
	if !c.checkLayerName(m.Name, path) {
		return false
	}
	err := c.parts.Middleware.Check(m, plan)
	if err != nil {
		field, message := fieldOf(err)
		c.addFault(manifest.JoinPath(path, field), "%s", message)
	}
	return err == nil
}

// setLimits sets the limits of the plan: those of the configuration, lowered by those of the agent.
func (c *compiler) setLimits() {
	c.plan.Limits = c.parts.Limits.Lower(&c.inst.Limits)
	c.plan.Limits = c.plan.Limits.Lower(&agent.Limits{Iterations: c.iterations})
}

// fieldOf returns the field and the message of an error.
func fieldOf(err error) (field, message string) {
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Op == "" {
		return e.Field, e.Err.Error()
	}
	return "", err.Error()
}
