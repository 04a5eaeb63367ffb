package openapi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/openapi"
)

// chooseProfiles returns the auth profiles for a request, according to the security schemes of the document. If the document has no schemes, it
// is the first profile that may be sent to the host. name is the profile that the call names, or empty.
func chooseProfiles(op *openapi.Operation, u *url.URL, granted []agent.PlanAuth, name string) ([]agent.PlanAuth, error) {
	fitting := slices.DeleteFunc(slices.Clone(granted), func(p agent.PlanAuth) bool {
		fits, _ := egress.HostFits(p.Hosts, u)
		return !fits
	})
	if name != "" {
		var err error
		if fitting, err = findProfile(u, granted, fitting, name); err != nil {
			return nil, err
		}
	}
	if !op.Declared || len(op.Security) == 0 && name != "" {
		return fitting[:min(1, len(fitting))], nil
	}
	optional := len(op.Security) == 0
	for _, requirement := range op.Security {
		if len(requirement) == 0 {
			optional = true
			continue
		}
		if chosen, ok := satisfySchemes(requirement, fitting); ok {
			return chosen, nil
		}
	}
	if optional && name == "" {
		return nil, nil
	}
	return nil, missingProfileError(op, u, fitting, name)
}

// findProfile returns a list of the profile with the given name, which must be one that may be sent to the host.
func findProfile(u *url.URL, granted, fitting []agent.PlanAuth, name string) ([]agent.PlanAuth, error) {
	hasName := func(p agent.PlanAuth) bool { return p.Name == name }
	if i := slices.IndexFunc(fitting, hasName); i >= 0 {
		return fitting[i : i+1 : i+1], nil
	}
	if slices.ContainsFunc(granted, hasName) {
		return nil, agent.FieldErrorf(agent.CodeDenied, "auth_profile", "the profile %q may not be sent to %s", clip.Bytes(name, 100), u.Host)
	}
	names := make([]string, len(granted))
	for i := range granted {
		names[i] = granted[i].Name
	}
	return nil, agent.FieldErrorf(agent.CodeDenied, "auth_profile", "the profile %q is not granted: %s", clip.Bytes(name, 100), listNames("granted are", names))
}

// satisfySchemes returns a profile for each scheme of a requirement. It returns false if there is none for a scheme.
func satisfySchemes(requirement openapi.Requirement, profiles []agent.PlanAuth) (chosen []agent.PlanAuth, ok bool) {
	for _, scheme := range requirement {
		i := slices.IndexFunc(profiles, func(p agent.PlanAuth) bool { return servesScheme(&p, scheme) })
		if i < 0 {
			return nil, false
		}
		if !slices.ContainsFunc(chosen, func(p agent.PlanAuth) bool { return p.Name == profiles[i].Name }) {
			chosen = append(chosen, profiles[i])
		}
	}
	return chosen, true
}

// servesScheme reports whether a profile fits a scheme. Many documents call a bearer token an API key in the header Authorization, or name
// OAuth 2.0 for a server that takes any bearer token.
func servesScheme(p *agent.PlanAuth, s openapi.Scheme) bool {
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

// maxListed is the maximum number of names in an error.
const maxListed = 10

func missingProfileError(op *openapi.Operation, u *url.URL, profiles []agent.PlanAuth, name string) error {
	var needs, has []string
	for _, requirement := range op.Security[:min(maxListed, len(op.Security))] {
		if len(requirement) > 0 {
			needs = append(needs, clip.Bytes(requirement.String(), 300))
		}
	}
	for i := range profiles {
		has = append(has, profiles[i].Name+" ("+describeProfile(&profiles[i])+")")
	}
	field := ""
	if name != "" {
		field = "auth_profile"
	}
	return agent.FieldErrorf(agent.CodeDenied, field, "the operation needs %s, and no auth profile is one: %s",
		strings.Join(needs, ", or "), listNames("those for "+u.Host+" are", has))
}

func describeProfile(p *agent.PlanAuth) string {
	switch {
	case p.Type == agent.AuthAPIKey && p.Header != "":
		return "api_key in the header " + p.Header
	case p.Type == agent.AuthAPIKey:
		return "api_key in the query, " + p.Query
	default:
		return string(p.Type)
	}
}

// listNames returns the start of a sentence, followed by the names or "none".
func listNames(start string, names []string) string {
	if len(names) == 0 {
		return start + " none"
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = clip.Bytes(n, 100)
	}
	if more := len(names) - maxListed; more > 0 {
		names = append(names[:maxListed:maxListed], "…")
	}
	return start + " " + strings.Join(names, ", ")
}
