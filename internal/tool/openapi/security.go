package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/openapi"
)

// choose picks the auth profiles that a request goes with. A document says in its schemes what is needed; one that says nothing is treated as
// any request is: the first profile that may be sent to the host.
func choose(op *openapi.Operation, u *url.URL, granted []agent.PlanAuth, name string) ([]agent.PlanAuth, error) {
	fitting := slices.DeleteFunc(slices.Clone(granted), func(p agent.PlanAuth) bool {
		fits, _ := egress.HostFits(p.Hosts, u)
		return !fits
	})
	if name != "" {
		var err error
		if fitting, err = named(u, granted, fitting, name); err != nil {
			return nil, err
		}
	}
	if !op.Declared || len(op.Security) == 0 && name != "" {
		return fitting[:min(1, len(fitting))], nil
	}
	optional := len(op.Security) == 0
	for _, needed := range op.Security {
		if len(needed) == 0 {
			optional = true
			continue
		}
		if chosen, ok := satisfy(needed, fitting); ok {
			return chosen, nil
		}
	}
	if optional && name == "" {
		return nil, nil
	}
	return nil, unsatisfied(op, u, fitting, name)
}

func named(u *url.URL, granted, fitting []agent.PlanAuth, name string) ([]agent.PlanAuth, error) {
	is := func(p agent.PlanAuth) bool { return p.Name == name }
	if i := slices.IndexFunc(fitting, is); i >= 0 {
		return fitting[i : i+1 : i+1], nil
	}
	if slices.ContainsFunc(granted, is) {
		return nil, agent.FieldErrorf(agent.CodeDenied, "auth_profile", "the profile %q may not be sent to %s", clip.Bytes(name, 100), u.Host)
	}
	known := make([]string, len(granted))
	for i := range granted {
		known[i] = granted[i].Name
	}
	return nil, agent.FieldErrorf(agent.CodeDenied, "auth_profile", "the profile %q is not granted: %s", clip.Bytes(name, 100), list("granted are", known))
}

// satisfy finds a profile for each scheme.
func satisfy(needed openapi.Requirement, profiles []agent.PlanAuth) ([]agent.PlanAuth, bool) {
	var chosen []agent.PlanAuth
	for _, scheme := range needed {
		i := slices.IndexFunc(profiles, func(p agent.PlanAuth) bool { return serves(&p, scheme) })
		if i < 0 {
			return nil, false
		}
		if !slices.ContainsFunc(chosen, func(p agent.PlanAuth) bool { return p.Name == profiles[i].Name }) {
			chosen = append(chosen, profiles[i])
		}
	}
	return chosen, true
}

// serves reports whether a profile is what a scheme wants. Documents that call a bearer token an API key in the header Authorization are
// many, and so are those that give OAuth 2.0 for what takes any bearer token.
func serves(p *agent.PlanAuth, s openapi.Scheme) bool {
	switch s.Type {
	case "apiKey":
		switch s.In {
		case "query":
			return p.Type == agent.AuthAPIKey && p.Header == "" && p.Query == s.Key
		case "cookie": // the secret is name=value
			return p.Type == agent.AuthAPIKey && strings.EqualFold(p.Header, "Cookie")
		}
		if strings.EqualFold(s.Key, "Authorization") && p.Type != agent.AuthAPIKey {
			return true
		}
		return p.Type == agent.AuthAPIKey && strings.EqualFold(p.Header, s.Key)
	case "http":
		switch s.Scheme {
		case "basic":
			return p.Type == agent.AuthBasic
		case "bearer":
			return p.Type == agent.AuthBearer || p.Type == agent.AuthOAuth2
		}
		return p.Type == agent.AuthAPIKey && strings.EqualFold(p.Header, "Authorization")
	case "oauth2", "openIdConnect":
		return p.Type == agent.AuthOAuth2 || p.Type == agent.AuthBearer
	default:
		return false
	}
}

// maxTold is how many things an error lists.
const maxTold = 10

func unsatisfied(op *openapi.Operation, u *url.URL, profiles []agent.PlanAuth, name string) error {
	var needs, has []string
	for _, needed := range op.Security[:min(maxTold, len(op.Security))] {
		if len(needed) > 0 {
			needs = append(needs, clip.Bytes(needed.String(), 300))
		}
	}
	for i := range profiles {
		has = append(has, profiles[i].Name+" ("+describe(&profiles[i])+")")
	}
	field := ""
	if name != "" {
		field = "auth_profile"
	}
	return agent.FieldErrorf(agent.CodeDenied, field, "the operation needs %s, and no auth profile is one: %s",
		strings.Join(needs, ", or "), list("those for "+u.Host+" are", has))
}

func describe(p *agent.PlanAuth) string {
	switch {
	case p.Type == agent.AuthAPIKey && p.Header != "":
		return "api_key in the header " + p.Header
	case p.Type == agent.AuthAPIKey:
		return "api_key in the query, " + p.Query
	default:
		return string(p.Type)
	}
}

// secrets are the values that authorising has put into a request, to be taken out of what comes back: servers that tell what they were sent
// are common.
func secrets(before, after *http.Request) []string {
	var all []string
	add := func(text string) {
		if len(text) >= minSecret && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for name, values := range after.Header {
		for _, v := range values {
			if slices.Contains(before.Header[name], v) {
				continue
			}
			add(v)
			if _, credentials, ok := strings.Cut(v, " "); ok {
				add(credentials)
			}
			if user, password, ok := after.BasicAuth(); ok && name == "Authorization" {
				add(password)
				add(user + ":" + password)
			}
			if name == "Cookie" {
				_, value, _ := strings.Cut(v, "=")
				add(value)
			}
		}
	}
	query := before.URL.Query()
	for name, values := range after.URL.Query() {
		for _, v := range values {
			if !slices.Contains(query[name], v) {
				add(v)
				add(url.QueryEscape(v))
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // the longer first: one may be a part of another
	return all
}

// minSecret is how long a secret is at least: to take "1" out of an answer would spoil it, and hide nothing.
const minSecret = 4

// list continues a sentence with names, or says that there are none.
func list(begin string, names []string) string {
	if len(names) == 0 {
		return begin + " none"
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = clip.Bytes(n, 100)
	}
	if more := len(names) - maxTold; more > 0 {
		names = append(names[:maxTold:maxTold], "…")
	}
	return begin + " " + strings.Join(names, ", ")
}
